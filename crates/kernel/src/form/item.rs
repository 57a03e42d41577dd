//! The items a kernel runs at each outer point, in order: stages, stores and carry blocks.

use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::ids::{AxisId, BufferId, NodeId, StageId};
use super::node::Nodes;

/// Axes, outermost first.
pub type Axes = SmallVec<[AxisId; 4]>;

/// An axis: an index that runs from 0 up to an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name; unique among the axes that are in scope together.
    pub name: String,
    /// How far it runs.
    pub extent: Extent,
}

/// How far an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A size.
    Size(DimId),
    /// `min(max(value, 0), bound)`: causal if `value` uses outer axes, ragged if it loads. Inner axes only.
    Clamped {
        /// An `i64` of the axes around it.
        value: NodeId,
        /// The most it can be.
        bound: DimId,
    },
}

impl Extent {
    /// The most the extent can be.
    pub fn bound(self) -> DimId {
        match self {
            Extent::Size(size) => size,
            Extent::Clamped { bound, .. } => bound,
        }
    }
}

/// One thing a kernel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Computes a local.
    Stage(StageId),
    /// Writes.
    Store(Store),
    /// Runs items over and over.
    Carry(Carry),
}

impl Item {
    /// The stages and stores that it is: itself, or what is in the block.
    pub fn parts(&self) -> &[Item] {
        match self {
            Item::Carry(carry) => &carry.items,
            other => std::slice::from_ref(other),
        }
    }

    /// The same, to be changed.
    pub(super) fn parts_mut(&mut self) -> &mut [Item] {
        match self {
            Item::Carry(carry) => &mut carry.items,
            other => std::slice::from_mut(other),
        }
    }
}

/// A stage: one scalar expression over inner axes, into a local.
///
/// The local is a scalar, or an array over the axes the stage names. For each point of those axes
/// the value is computed (`map`), or reduced over further axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name; unique in the kernel.
    pub name: String,
    /// The axes of the local; none is a scalar. Their extents are sizes.
    pub axes: Axes,
    /// What is done with the value.
    pub operation: StageOperation,
    /// The expression, over the outer axes, the stage's own and those reduced.
    pub value: NodeId,
    /// Within a `carry` block: what `prev` answers in the first step and `last` after no step, an
    /// expression over the outer axes and the stage's own. The stage's dtype.
    pub init: Option<NodeId>,
}

/// What a stage does with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageOperation {
    /// Keeps it.
    Map,
    /// Reduces it over axes.
    Reduce {
        /// How.
        reduction: Reduction,
        /// Over which axes, at least one; exactly one for an arg-reduction.
        axes: Axes,
        /// The dtype it is accumulated in, and the stage's (an arg-reduction's is `i64`).
        accumulator: DType,
    },
}

/// How a reduction joins values. In any order: floats may be reassociated here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// Their sum; 0 of none. Integers wrap.
    Add,
    /// Their product; 1 of none. Integers wrap.
    Mul,
    /// The smallest, NaN if any is; of none the largest value of the dtype (+inf).
    Min,
    /// The largest, NaN if any is; of none the smallest value of the dtype (-inf).
    Max,
    /// Whether all are true; true of none.
    And,
    /// Whether any is true; false of none.
    Or,
    /// The index of the smallest; a NaN counts as smaller than all. 0 of none.
    ArgMin {
        /// Of equal ones the last, not the first.
        last: bool,
    },
    /// The index of the largest; a NaN counts as larger than all. 0 of none.
    ArgMax {
        /// Of equal ones the last, not the first.
        last: bool,
    },
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Reduction; 10] = [
        Reduction::Add,
        Reduction::Mul,
        Reduction::Min,
        Reduction::Max,
        Reduction::And,
        Reduction::Or,
        Reduction::ArgMin { last: false },
        Reduction::ArgMin { last: true },
        Reduction::ArgMax { last: false },
        Reduction::ArgMax { last: true },
    ];

    /// The word in the text form.
    pub const fn as_word(self) -> &'static str {
        match self {
            Reduction::Add => "add",
            Reduction::Mul => "mul",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::And => "and",
            Reduction::Or => "or",
            Reduction::ArgMin { last: false } => "argmin",
            Reduction::ArgMin { last: true } => "argmin_last",
            Reduction::ArgMax { last: false } => "argmax",
            Reduction::ArgMax { last: true } => "argmax_last",
        }
    }

    /// Whether its result is an index.
    pub const fn is_arg(self) -> bool {
        matches!(self, Reduction::ArgMin { .. } | Reduction::ArgMax { .. })
    }

    /// What it gives of no values accumulated in a dtype, which changes nothing when it is joined with one: the infinities
    /// for `min` and `max` of floats. `None` where the verifier accepts no such reduction; an arg-reduction has none either.
    pub fn identity(self, dtype: DType) -> Option<ScalarValue> {
        match self {
            Reduction::Add if dtype != DType::Bool => Some(ScalarValue::zero(dtype)),
            Reduction::Mul => ScalarValue::from_number(1.0, dtype),
            Reduction::Min => extreme(dtype, true),
            Reduction::Max => extreme(dtype, false),
            Reduction::And if dtype == DType::Bool => Some(true.into()),
            Reduction::Or if dtype == DType::Bool => Some(false.into()),
            _ => None,
        }
    }
}

/// The largest or the smallest value of a dtype.
fn extreme(dtype: DType, largest: bool) -> Option<ScalarValue> {
    macro_rules! of {
        ($ty:ty) => {
            Some(if largest { <$ty>::MAX } else { <$ty>::MIN }.into())
        };
    }
    match dtype {
        DType::I64 => of!(i64),
        DType::I32 => of!(i32),
        DType::I16 => of!(i16),
        DType::I8 => of!(i8),
        DType::U64 => of!(u64),
        DType::U32 => of!(u32),
        DType::U16 => of!(u16),
        DType::U8 => of!(u8),
        _ if dtype.is_float() => ScalarValue::from_number(
            if largest {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            },
            dtype,
        ),
        _ => None,
    }
}

/// A store: for each point of its inner axes, one element of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The inner axes it runs over; their extents are sizes.
    pub axes: Axes,
    /// Where to.
    pub buffer: BufferId,
    /// One `i64` per axis of the buffer.
    pub indices: Nodes,
    /// The element, of the buffer's dtype.
    pub value: NodeId,
    /// How it joins what is there; `None` writes, to an `out` buffer, each element exactly once.
    pub combine: Option<Combine>,
}

/// How a store joins what is there, for `inout` buffers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Combine {
    /// Adds.
    Add,
    /// Multiplies.
    Mul,
    /// Keeps the smaller value, with the semantics of `scalar`'s `min`.
    Min,
    /// Keeps the larger value, with the semantics of `scalar`'s `max`.
    Max,
    /// Replaces; of several in the order of the outer points, then of the inner ones, the last stays.
    Set,
}

impl Combine {
    /// Every way.
    pub const ALL: [Combine; 5] = [
        Combine::Add,
        Combine::Mul,
        Combine::Min,
        Combine::Max,
        Combine::Set,
    ];

    /// The word in the text form.
    pub const fn as_word(self) -> &'static str {
        match self {
            Combine::Add => "add",
            Combine::Mul => "mul",
            Combine::Min => "min",
            Combine::Max => "max",
            Combine::Set => "set",
        }
    }
}

/// Items that run in order at each step of an axis, and may read what they held a step before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// The steps. Its extent may be clamped, by outer axes and loads.
    pub axis: AxisId,
    /// Whether it runs from the last step to the first.
    pub reverse: bool,
    /// Stages and stores; no block inside a block.
    pub items: Vec<Item>,
}
