//! Products of narrow numbers, several per lane and instruction: 16-bit integers summed in 32 bits, two at a time
//! (`pmaddwd`), 8-bit integers, four at a time (`vpdpbusd`, `usdot`), and bf16 summed in f32, two at a time (`vdpbf16ps`,
//! `bfdot`).

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::{Dependence, GuardedIndex};
use kiln_kernel::{
    AxisId, Node, NodeId, Reduction, Stage, StageId, StageOperation, VerifiedKernel,
};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::strides::bound;

/// The minimum number of points of an axis for which the shuffles pay.
const POINTS: i64 = 4;

/// Whether a stage is a sum of products that can be summed in pairs, at a level that has the instruction.
pub(crate) fn sums_pairs(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    level: IsaLevel,
    stage: StageId,
) -> bool {
    let Stage {
        operation, value, ..
    } = kernel.stage(stage);
    let are_integers =
        level.multiplies_pairs() && narrow_factors(kernel, operation, *value).is_some();
    let are_floats =
        || level.multiplies_bf16_pairs() && bf16_factors(kernel, operation, *value).is_some();
    (are_integers || are_floats()) && has_groups_of_steps(kernel, dependence, stage)
}

/// Whether a stage is a sum of products of 8-bit integers, at a level that sums four of them at once.
pub(crate) fn sums_fours(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    level: IsaLevel,
    stage: StageId,
) -> bool {
    let Stage {
        operation, value, ..
    } = kernel.stage(stage);
    level.multiplies_fours()
        && byte_factors(kernel, operation, *value).is_some()
        && has_groups_of_steps(kernel, dependence, stage)
}

/// Whether the innermost loop of a reduction has enough steps for groups of them, and tests no bounds of operands: they are
/// tested before it, if at all.
fn has_groups_of_steps(kernel: &VerifiedKernel, dependence: &Dependence, stage: StageId) -> bool {
    let stage = kernel.stage(stage);
    let StageOperation::Reduce { axes, .. } = &stage.operation else {
        return false;
    };
    let is_suitable = |&axis: &AxisId| {
        let points = bound(kernel, axis).as_constant();
        let is_fixed = GuardedIndex::below(kernel, stage.value).is_empty()
            || GuardedIndex::are_fixed_along(kernel, dependence, stage.value, axis);
        points.is_none_or(|points| points >= POINTS) && is_fixed
    };
    axes.last().is_some_and(is_suitable)
}

/// The factors of a sum of products in 32 bits, if both are 8-bit integers that are widened to them.
pub fn byte_factors(
    kernel: &VerifiedKernel,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let is_byte = |factor| matches!(kernel.dtype(factor), DType::I8 | DType::U8);
    narrow_factors(kernel, operation, value)
        .filter(|&(left, right)| is_byte(left) && is_byte(right))
}

/// The factors of a sum of products in 32 bits, as the integers before widening: each fits 16 bits.
pub fn narrow_factors(
    kernel: &VerifiedKernel,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let (left, right) = widened_factors(kernel, DType::I32, operation, value)?;
    let fits = |factor| matches!(kernel.dtype(factor), DType::I8 | DType::U8 | DType::I16);
    (fits(left) && fits(right)).then_some((left, right))
}

/// The factors of a sum of products in f32, if both are loads of bf16.
pub fn bf16_factors(
    kernel: &VerifiedKernel,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let (left, right) = widened_factors(kernel, DType::F32, operation, value)?;
    let fits = |factor| {
        kernel.dtype(factor) == DType::BF16 && matches!(kernel.node(factor), Node::Load(_))
    };
    (fits(left) && fits(right)).then_some((left, right))
}

/// The factors of a sum of products in a type, before they are converted to it.
fn widened_factors(
    kernel: &VerifiedKernel,
    wide: DType,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let is_sum = matches!(
        operation,
        StageOperation::Reduce { reduction: Reduction::Add, accumulator, .. } if *accumulator == wide
    );
    let before = |factor: NodeId| match kernel.node(factor) {
        Node::Apply {
            op: ScalarOp::Cast(to),
            operands,
        } if *to == wide => match *operands.as_slice() {
            [operand] => Some(operand),
            _ => None,
        },
        _ => None,
    };
    match kernel.node(value) {
        Node::Apply {
            op: ScalarOp::Mul,
            operands,
        } if is_sum && kernel.dtype(value) == wide => match *operands.as_slice() {
            [left, right] => before(left).zip(before(right)),
            _ => None,
        },
        _ => None,
    }
}
