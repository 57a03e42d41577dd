//! Interns nodes by their bits, so that equal nodes are shared.

use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::KernelBuilder;
use crate::form::ids::{AxisId, NodeId, StageId};
use crate::form::kernel::NodeData;
use crate::form::node::{Load, Node, Nodes};

/// A node by its bits, so that equal nodes are shared.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interned {
    Literal(ScalarValue),
    Size(DimId),
    Axis(AxisId),
    Load(Load),
    Local(StageId, Nodes),
    Previous(StageId, Nodes),
    Last(StageId, Nodes),
    Apply(ScalarOp, Nodes),
    Call(Function, SmallVec<[u64; 2]>, Nodes),
}

impl Interned {
    pub(crate) fn of(node: &Node) -> Self {
        match node.clone() {
            Node::Literal(value) => Self::Literal(value),
            Node::Size(dim) => Self::Size(dim),
            Node::Axis(axis) => Self::Axis(axis),
            Node::Load(load) => Self::Load(load),
            Node::Local { stage, indices } => Self::Local(stage, indices),
            Node::Previous { stage, indices } => Self::Previous(stage, indices),
            Node::Last { stage, indices } => Self::Last(stage, indices),
            Node::Apply { op, operands } => Self::Apply(op, operands),
            Node::Call {
                function,
                parameters,
                operands,
            } => Self::Call(
                function,
                parameters.iter().map(|value| value.to_bits()).collect(),
                operands,
            ),
        }
    }
}

impl KernelBuilder {
    /// The node's id: that of an equal node, if there is one.
    pub(super) fn push(&mut self, node: Node, dtype: DType) -> NodeId {
        let nodes = &mut self.kernel.nodes;
        *self
            .interned
            .entry(Interned::of(&node))
            .or_insert_with(|| nodes.push(NodeData { node, dtype }))
    }
}
