//! The scalar language: the nodes of values, indices and conditions.
//!
//! Nodes are pure: a node's value depends only on the axes, sizes, buffers and stages it names. The builder shares
//! equal nodes. Operands always come before the node that uses them.

use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::ids::{AxisId, BufferId, NodeId, StageId};

/// Operands or indices.
pub type Nodes = SmallVec<[NodeId; 4]>;

/// One step of a scalar expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A value.
    Literal(ScalarValue),
    /// A size, as an `i64`.
    Size(DimId),
    /// The index along an axis, as an `i64`.
    Axis(AxisId),
    /// An element of a buffer.
    Load(Load),
    /// The result of a stage at this point, at the given indices along the axes it names.
    Local {
        /// The stage, earlier in the same list of items or around it.
        stage: StageId,
        /// One `i64` per axis the stage names.
        indices: Nodes,
    },
    /// The value of a stage of this `carry` block after the previous step; initially its `init`.
    Previous {
        /// A stage of the block.
        stage: StageId,
        /// One `i64` per axis the stage names.
        indices: Nodes,
    },
    /// The value of a stage of a `carry` block at the block's end; its `init` if there was no step.
    Last {
        /// A stage of an earlier block.
        stage: StageId,
        /// One `i64` per axis the stage names.
        indices: Nodes,
    },
    /// A primitive operation. On f16 and bf16 only casts, selections and comparisons: arithmetic is in f32, and a cast
    /// makes the rounding explicit.
    Apply {
        /// The operation.
        op: ScalarOp,
        /// Its operands.
        operands: Nodes,
    },
    /// A named function, meaning its definition in `scalar`.
    Call {
        /// The function; a primitive is an [`Node::Apply`] instead.
        function: Function,
        /// Its parameters, in the function's order.
        parameters: SmallVec<[f64; 2]>,
        /// Its operands.
        operands: Nodes,
    },
}

/// A load of one element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Load {
    /// The buffer.
    pub buffer: BufferId,
    /// The indices, one `i64` per axis of the buffer. An index that is not proved in bounds is checked: one out of bounds
    /// is a fault, and the element is a zero.
    pub indices: Nodes,
    /// The condition of the load.
    pub guard: Option<LoadGuard>,
}

/// The condition of a load: `%x[i] if inside and c else v`. Where it is false nothing is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadGuard {
    /// Whether all indices being in bounds is part of the condition.
    pub inside: bool,
    /// A `bool` that is part of the condition.
    pub when: Option<NodeId>,
    /// The value otherwise, of the buffer's dtype.
    pub otherwise: NodeId,
}

impl Node {
    /// Calls `visit` with every node that this one uses directly.
    pub fn for_each_operand(&self, visit: &mut dyn FnMut(NodeId)) {
        match self {
            Node::Literal(_) | Node::Size(_) | Node::Axis(_) => {}
            Node::Load(load) => {
                load.indices.iter().copied().for_each(&mut *visit);
                if let Some(guard) = &load.guard {
                    guard.when.into_iter().for_each(&mut *visit);
                    visit(guard.otherwise);
                }
            }
            Node::Local { indices, .. }
            | Node::Previous { indices, .. }
            | Node::Last { indices, .. } => indices.iter().copied().for_each(visit),
            Node::Apply { operands, .. } | Node::Call { operands, .. } => {
                operands.iter().copied().for_each(visit);
            }
        }
    }

    /// Replaces every node that this one uses directly.
    pub fn map_operands(&mut self, map: &mut dyn FnMut(NodeId) -> NodeId) {
        match self {
            Node::Literal(_) | Node::Size(_) | Node::Axis(_) => {}
            Node::Load(load) => {
                load.indices
                    .iter_mut()
                    .for_each(|index| *index = map(*index));
                if let Some(guard) = &mut load.guard {
                    guard.when = guard.when.map(&mut *map);
                    guard.otherwise = map(guard.otherwise);
                }
            }
            Node::Local { indices, .. }
            | Node::Previous { indices, .. }
            | Node::Last { indices, .. } => {
                indices.iter_mut().for_each(|index| *index = map(*index));
            }
            Node::Apply { operands, .. } | Node::Call { operands, .. } => {
                operands
                    .iter_mut()
                    .for_each(|operand| *operand = map(*operand));
            }
        }
    }
}
