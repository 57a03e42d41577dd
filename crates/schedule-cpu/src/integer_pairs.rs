//! Pairs of products: sums of products of 16-bit integers in 32 bits, two products per lane and instruction (`pmaddwd`).

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::GuardedIndex;
use kiln_kernel::{AxisId, Node, NodeId, Reduction, StageId, StageOperation, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::strides::bound;

/// An axis with fewer points is not worth the shuffles.
const POINTS: i64 = 4;

/// Whether a stage is a sum of products that pairs suit, at a level that has the instruction.
pub(crate) fn sums_pairs(kernel: &VerifiedKernel, level: IsaLevel, stage: StageId) -> bool {
    let stage = kernel.stage(stage);
    let StageOperation::Reduce { axes, .. } = &stage.operation else {
        return false;
    };
    let is_long = |&axis: &AxisId| {
        let points = bound(kernel, axis).as_constant();
        points.is_none_or(|points| points >= POINTS)
    };
    level.multiplies_pairs()
        && axes.last().is_some_and(is_long)
        && narrow_factors(kernel, &stage.operation, stage.value).is_some()
        && GuardedIndex::below(kernel, stage.value).is_empty()
}

/// The factors of a sum of products in 32 bits, as the integers that are widened for it: each fits 16 bits.
pub fn narrow_factors(
    kernel: &VerifiedKernel,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        accumulator: DType::I32,
        ..
    } = operation
    else {
        return None;
    };
    let narrow = |factor: NodeId| match kernel.node(factor) {
        Node::Apply {
            op: ScalarOp::Cast(DType::I32),
            operands,
        } => match *operands.as_slice() {
            [operand] => {
                let fits = matches!(kernel.dtype(operand), DType::I8 | DType::U8 | DType::I16);
                fits.then_some(operand)
            }
            _ => None,
        },
        _ => None,
    };
    match kernel.node(value) {
        Node::Apply {
            op: ScalarOp::Mul,
            operands,
        } if kernel.dtype(value) == DType::I32 => match *operands.as_slice() {
            [left, right] => narrow(left).zip(narrow(right)),
            _ => None,
        },
        _ => None,
    }
}
