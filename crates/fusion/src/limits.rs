//! Limits of planning: the size of a kernel, and the work spent on one plan.
//!
//! Reaching either is not an error. A kernel stops growing, and the plan is still correct.

/// Limits on the size of kernels and on the work of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FusionLimits {
    /// Kernel nodes of one kernel that are under guards of concatenations, borders and resizes, estimated as if every
    /// demand were lowered in place. They become one basic block, on which code generation takes more than linear time.
    /// A single op may have more.
    pub kernel_nodes: usize,
    /// Ops of one kernel. A device may have a lower limit.
    pub kernel_ops: usize,
    /// Steps that one plan may take: groups offered and searched, values walked, nodes counted, and proofs about sizes.
    /// Afterwards nothing more is joined.
    pub plan_work: u64,
}

impl Default for FusionLimits {
    fn default() -> Self {
        Self {
            kernel_nodes: 192,
            kernel_ops: 96,
            plan_work: 1 << 24,
        }
    }
}
