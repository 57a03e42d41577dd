//! The builder's view of a fusion plan: the nodes of each region, in a runnable order.

use kiln_ir::{OpId, RegionId, ValueId};
use kiln_kernel::VerifiedKernel;
use kiln_symbolic_shape::{DimId, PlanFact, Predicate};

/// A node of a plan: ops that become one step.
#[derive(Clone, Debug)]
pub(crate) struct StepNode {
    pub(crate) name: String,
    pub(crate) ops: Vec<OpId>,
    pub(crate) kind: NodeKind,
    /// The plan facts under which it was fused.
    pub(crate) facts: Vec<PlanFact>,
}

/// How a node is executed.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// A kernel.
    Kernel(Box<KernelNode>),
    /// A view: ops that need no copy if their operand is contiguous.
    View,
    /// One op that an executor implements itself.
    Builtin,
    /// An `if` or a `loop`.
    Control,
    /// `dims`, `bind` or a constant.
    Host,
    /// Ops that are interpreted one by one.
    Interpret {
        /// The reason.
        reason: String,
    },
}

/// A kernel with its operands.
#[derive(Clone, Debug)]
pub(crate) struct KernelNode {
    pub(crate) kernel: VerifiedKernel,
    /// The value in each buffer.
    pub(crate) operands: Vec<ValueId>,
    /// The size that each symbol has.
    pub(crate) symbols: Vec<DimId>,
    /// A buffer that starts as a copy of a value, by position.
    pub(crate) initialise: Option<(usize, ValueId)>,
    /// The requirements on sizes.
    pub(crate) requirements: Vec<(Predicate, String)>,
}

/// The nodes of a region.
pub(crate) trait NodeSource {
    fn nodes(&self, region: RegionId) -> Vec<StepNode>;
}
