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
    /// Its extent.
    pub extent: Extent,
}

/// The extent of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A size.
    Size(DimId),
    /// `min(max(value, 0), bound)`: causal if `value` uses outer axes, ragged if it loads. Inner axes only.
    Clamped {
        /// An `i64` computed from the surrounding axes.
        value: NodeId,
        /// Its upper bound.
        bound: DimId,
    },
}

impl Extent {
    /// The upper bound of the extent.
    pub fn bound(self) -> DimId {
        match self {
            Extent::Size(size) => size,
            Extent::Clamped { bound, .. } => bound,
        }
    }
}

/// One item of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Computes a local.
    Stage(StageId),
    /// Writes to a buffer.
    Store(Store),
    /// Runs items repeatedly: a carry block.
    Carry(Carry),
}

impl Item {
    /// The stages and stores of the item: itself, or those in the block.
    pub fn parts(&self) -> &[Item] {
        match self {
            Item::Carry(carry) => &carry.items,
            other => std::slice::from_ref(other),
        }
    }

    /// The same, mutable.
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
    /// The axes of the local; none for a scalar. Their extents are sizes.
    pub axes: Axes,
    /// The operation on the value.
    pub operation: StageOperation,
    /// The expression, over the outer axes, the stage's own and the reduced ones.
    pub value: NodeId,
    /// Within a `carry` block: the value of `prev` in the first step and of `last` after no step, an expression over the
    /// outer axes and the stage's own. It has the stage's dtype.
    pub init: Option<NodeId>,
}

/// The operation of a stage on its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageOperation {
    /// Keeps it.
    Map,
    /// Reduces it over axes.
    Reduce {
        /// The reduction.
        reduction: Reduction,
        /// The reduced axes, at least one; exactly one for an arg-reduction.
        axes: Axes,
        /// The accumulator's dtype, which is the stage's (an arg-reduction's stage is `i64`).
        accumulator: DType,
    },
}

/// How a reduction combines values, in any order: floats may be reassociated here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// The sum; 0 if empty. Integers wrap.
    Add,
    /// The product; 1 if empty. Integers wrap.
    Mul,
    /// The minimum, NaN if any is NaN; if empty the largest value of the dtype (+inf).
    Min,
    /// The maximum, NaN if any is NaN; if empty the smallest value of the dtype (-inf).
    Max,
    /// Whether all are true; true if empty.
    And,
    /// Whether any is true; false if empty.
    Or,
    /// The index of the minimum; a NaN counts as smaller than all. 0 if empty.
    ArgMin {
        /// Whether the last of equal elements is selected, rather than the first.
        last: bool,
    },
    /// The index of the maximum; a NaN counts as larger than all. 0 if empty.
    ArgMax {
        /// Whether the last of equal elements is selected, rather than the first.
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

    /// Its keyword in the text form.
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

    /// Its neutral element in an accumulator dtype: the infinities for `min` and `max` of floats. `None` if the
    /// verifier accepts no such reduction, and for arg-reductions.
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

/// The maximum or the minimum value of a dtype.
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
    /// The buffer.
    pub buffer: BufferId,
    /// The indices, one `i64` per axis of the buffer.
    pub indices: Nodes,
    /// The element, of the buffer's dtype.
    pub value: NodeId,
    /// How it combines with the existing element; `None` writes, to an `out` buffer, each element exactly once.
    pub combine: Option<Combine>,
}

/// How a store combines with the existing element, for `inout` buffers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Combine {
    /// Adds.
    Add,
    /// Multiplies.
    Mul,
    /// Keeps the minimum, with the semantics of `scalar`'s `min`.
    Min,
    /// Keeps the maximum, with the semantics of `scalar`'s `max`.
    Max,
    /// Replaces; in the order of the outer points, then of the inner ones, the last store wins.
    Set,
}

impl Combine {
    /// Every combination.
    pub const ALL: [Combine; 5] = [
        Combine::Add,
        Combine::Mul,
        Combine::Min,
        Combine::Max,
        Combine::Set,
    ];

    /// Its keyword in the text form.
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

/// Items that run in order at each step of an axis, and may read their values of the previous step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// The steps. Its extent may be clamped, by outer axes and loads.
    pub axis: AxisId,
    /// Whether it runs from the last step to the first.
    pub reverse: bool,
    /// Stages and stores; no block inside a block.
    pub items: Vec<Item>,
}
