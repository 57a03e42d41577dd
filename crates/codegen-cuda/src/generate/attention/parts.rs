//! The parts of an attention as they are found.

use kiln_kernel::{AxisId, Node, NodeId, StageId, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

/// A value at a key, whose index is an axis.
pub(super) type Keyed = (NodeId, AxisId);

/// A weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    /// The shift that is subtracted from its score.
    pub(super) shift: NodeId,
    /// Its divisor.
    pub(super) divisor: Option<NodeId>,
    /// Whether it is rounded to 16 bits.
    pub(super) is_rounded: bool,
}

/// The stage that sums weighted values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) stage: StageId,
    pub(super) key: AxisId,
    pub(super) value: NodeId,
    pub(super) weight: Weight,
}

/// The factors of a product in f32.
pub(super) fn product(kernel: &VerifiedKernel, node: NodeId) -> Option<[NodeId; 2]> {
    match kernel.node(node) {
        Node::Apply {
            op: ScalarOp::Mul,
            operands,
        } if kernel.dtype(node) == DType::F32 => operands.as_slice().try_into().ok(),
        _ => None,
    }
}
