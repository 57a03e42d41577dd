//! The class of a kernel and the role of each axis: what fusion's cost model, `explain` and the backends read.

use std::fmt;

use cranelift_entity::SecondaryMap;

use crate::form::{AxisId, Item, Kernel, NodeId, StageId, StageOperation};

/// What kind of loop nest a kernel is. Backends have a schedule (or several) per class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No reduction: each point on its own.
    Map,
    /// Reductions and maps over inner axes, of the same data: softmax, norms, sums.
    Row,
    /// One sum of products of loads, neither reading at sums of axes: a matrix product of any rank.
    Contraction,
    /// Reductions over windows of an operand (indices that add an outer and a reduced axis): convolution, pooling.
    Window,
    /// A contraction whose result is reduced along a row and contracted again.
    Attention,
    /// A `carry` block.
    Scan,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 6] = [
        Class::Map,
        Class::Row,
        Class::Contraction,
        Class::Window,
        Class::Attention,
        Class::Scan,
    ];

    /// The word for it.
    pub const fn as_word(self) -> &'static str {
        match self {
            Class::Map => "map",
            Class::Row => "row",
            Class::Contraction => "contraction",
            Class::Window => "window",
            Class::Attention => "attention",
            Class::Scan => "scan",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_word())
    }
}

/// What an axis is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisRole {
    /// Points that nothing relates.
    #[default]
    Parallel,
    /// In both factors of the products, and not summed.
    Batch,
    /// In the left factor and the result.
    Rows,
    /// In the right factor and the result.
    Columns,
    /// Summed in a contraction.
    Depth,
    /// An outer axis that windows move along.
    Spatial,
    /// Reduced over a window.
    Window,
    /// Inner, of a row: mapped or reduced.
    Row,
    /// The steps of a `carry` block.
    Step,
}

impl AxisRole {
    /// The word for it.
    pub const fn as_word(self) -> &'static str {
        match self {
            AxisRole::Parallel => "parallel",
            AxisRole::Batch => "batch",
            AxisRole::Rows => "rows",
            AxisRole::Columns => "columns",
            AxisRole::Depth => "depth",
            AxisRole::Spatial => "spatial",
            AxisRole::Window => "window",
            AxisRole::Row => "row",
            AxisRole::Step => "step",
        }
    }
}

/// A stage that sums products of two factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// The stage.
    pub stage: StageId,
    /// The first factor; what hangs below it are loads and a prologue.
    pub left: NodeId,
    /// The second factor.
    pub right: NodeId,
}

/// A kernel's class, with the reasons.
#[derive(Clone, Debug)]
pub struct Classification {
    /// The class.
    pub class: Class,
    /// The role of each axis.
    pub roles: SecondaryMap<AxisId, AxisRole>,
    /// The stages that sum products, in order.
    pub contractions: Vec<Contraction>,
    /// Why this class, for people.
    pub why: String,
}

/// The class of a kernel and the role of each axis.
pub(crate) fn classify(kernel: &Kernel) -> Classification {
    let mut roles = SecondaryMap::new();
    let mut class = Class::Map;
    for (_, stage) in kernel.stages() {
        if let StageOperation::Reduce { axes, .. } = &stage.operation {
            class = Class::Row;
            for &axis in axes.iter().chain(&stage.axes) {
                roles[axis] = AxisRole::Row;
            }
        }
    }
    for item in kernel.items() {
        if let Item::Carry(carry) = item {
            class = Class::Scan;
            roles[carry.axis] = AxisRole::Step;
        }
    }
    Classification {
        class,
        roles,
        contractions: Vec::new(),
        why: String::new(),
    }
}
