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

/// How a node is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// One kernel.
    Kernel,
    /// Nothing to do: the result is the operand's elements in the same row-major order, under other sizes.
    View,
    /// A constant of the program.
    Constant,
    /// Something an executor implements itself.
    Builtin(Builtin),
    /// An `if`, or a `loop` that is no kernel; its regions have nodes of their own.
    Control,
    /// Data become sizes.
    Bind,
    /// Sizes become data, on the host.
    Dims,
    /// Left to the interpreter; why is among the node's [notes](FusionNode::notes).
    Interpret,
}

impl NodeKind {
    /// The word for it.
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

/// Ops that are done together.
#[derive(Clone, Debug)]
pub struct FusionNode {
    /// Its place in the plan.
    pub id: FusionNodeId,
    /// How it is done.
    pub kind: NodeKind,
    /// A readable name made from the ops: `matmul_bias_relu`. Not unique.
    pub name: String,
    /// The region of the graph that contains its ops.
    pub region: RegionId,
    /// Its ops, in program order. Every op of a graph is among those of exactly one node, or in the body of a loop that is.
    pub ops: Vec<OpId>,
    /// Ops of other nodes that this one does again because that is cheaper than reading their results: index maps.
    pub recomputed: Vec<OpId>,
    /// What it reads, constants included, in order of first use.
    pub inputs: Vec<ValueId>,
    /// What it gives to others, in program order.
    pub outputs: Vec<ValueId>,
    /// The plan facts it rests on.
    pub facts: Vec<PlanFact>,
    /// The class of its kernel.
    pub class: Option<Class>,
    /// Its kernel, for [`NodeKind::Kernel`] alone.
    pub kernel: Option<LoweredKernel>,
    /// What joining its ops is estimated to save.
    pub benefit: FusionBenefit,
    /// How it came about, for people.
    pub notes: Vec<String>,
}

impl FusionNode {
    /// The ops it does, its own and those done again, in program order.
    pub fn all_ops(&self) -> Vec<OpId> {
        let mut ops: Vec<OpId> = self.ops.iter().chain(&self.recomputed).copied().collect();
        ops.sort_unstable();
        ops
    }
}
