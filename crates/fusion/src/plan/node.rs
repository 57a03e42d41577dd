//! A node of a plan: ops that run together, and how.

use std::fmt;

use cranelift_entity::entity_impl;
use kiln_backend::Builtin;
use kiln_ir::{OpId, RegionId, ValueId};
use kiln_kernel::Class;
use kiln_symbolic_shape::PlanFact;

use crate::benefit::FusionBenefit;
use crate::lower::LoweredKernel;

/// A node of a [`FusionPlan`](crate::FusionPlan). Prints as `node3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FusionNodeId(u32);
entity_impl!(FusionNodeId, "node");

/// How a node is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// One kernel.
    Kernel,
    /// A view: the operand's elements in the same row-major order, with other sizes.
    View,
    /// A constant of the program.
    Constant,
    /// An operation that an executor implements itself.
    Builtin(Builtin),
    /// An `if`, or a `loop` that is not a kernel; its regions have their own nodes.
    Control,
    /// Data become sizes.
    Bind,
    /// Sizes become data, on the host.
    Dims,
    /// Left to the interpreter; the reason is among the node's [notes](FusionNode::notes).
    Interpret,
}

impl NodeKind {
    /// Its display name.
    pub const fn as_word(&self) -> &'static str {
        match self {
            NodeKind::Kernel => "kernel",
            NodeKind::View => "view",
            NodeKind::Constant => "constant",
            NodeKind::Builtin(_) => "builtin",
            NodeKind::Control => "control",
            NodeKind::Bind => "bind",
            NodeKind::Dims => "dims",
            NodeKind::Interpret => "interpret",
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_word())
    }
}

/// Ops that are executed together.
#[derive(Clone, Debug)]
pub struct FusionNode {
    /// Its place in the plan.
    pub id: FusionNodeId,
    /// How it is executed.
    pub kind: NodeKind,
    /// A readable name made from the ops: `matmul_bias_relu`. Not unique.
    pub name: String,
    /// The region of the graph that contains its ops.
    pub region: RegionId,
    /// Its ops, in program order. Every op of a graph belongs to exactly one node, or is in the body of a loop that does.
    pub ops: Vec<OpId>,
    /// Ops of other nodes that this one recomputes because that is cheaper than reading their results: index maps.
    pub recomputed: Vec<OpId>,
    /// Its operands, including constants, in order of first use.
    pub inputs: Vec<ValueId>,
    /// Its results with readers outside, in program order.
    pub outputs: Vec<ValueId>,
    /// The plan facts it depends on.
    pub facts: Vec<PlanFact>,
    /// The class of its kernel.
    pub class: Option<Class>,
    /// Its kernel; only for [`NodeKind::Kernel`].
    pub kernel: Option<LoweredKernel>,
    /// The estimated benefit of joining its ops.
    pub benefit: FusionBenefit,
    /// How it was formed, as printed.
    pub notes: Vec<String>,
}

impl FusionNode {
    /// Its ops and the recomputed ones, in program order.
    pub fn all_ops(&self) -> Vec<OpId> {
        let mut ops: Vec<OpId> = self.ops.iter().chain(&self.recomputed).copied().collect();
        ops.sort_unstable();
        ops
    }
}
