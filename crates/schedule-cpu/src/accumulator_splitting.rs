//! Accumulator splitting: if there are too few sums to hide the latency of additions, each uses several accumulators.

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::GuardedIndex;
use kiln_kernel::{AxisId, Node, NodeId, Reduction, StageId, StageOperation, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::strides::bound;

/// Accumulators that keep a core busy: two additions are issued per cycle, with a latency of four.
const ACCUMULATORS: u32 = 8;

/// The number of accumulators over which a stage's few sums are split; 0 for no splitting: sums that are not
/// multiply-adds, or too short, or that test bounds in each step.
pub(crate) fn accumulators(kernel: &VerifiedKernel, level: IsaLevel, stage: StageId) -> u32 {
    let stage = kernel.stage(stage);
    let StageOperation::Reduce { axes, .. } = &stage.operation else {
        return 0;
    };
    let is_long = |&axis: &AxisId| {
        let points = bound(kernel, axis).as_constant();
        points.is_none_or(|points| points >= 2 * i64::from(ACCUMULATORS))
    };
    let splits = axes.last().is_some_and(is_long)
        && level.has_fma()
        && factors(kernel, &stage.operation, stage.value).is_some()
        && GuardedIndex::below(kernel, stage.value).is_empty();
    match splits {
        true => ACCUMULATORS,
        false => 0,
    }
}

/// The factors of a sum of float products that multiply-adds can compute.
pub fn factors(
    kernel: &VerifiedKernel,
    operation: &StageOperation,
    value: NodeId,
) -> Option<(NodeId, NodeId)> {
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        accumulator: accumulator @ (DType::F32 | DType::F64),
        ..
    } = operation
    else {
        return None;
    };
    match kernel.node(value) {
        Node::Apply {
            op: ScalarOp::Mul,
            operands,
        } if kernel.dtype(value) == *accumulator => match *operands.as_slice() {
            [left, right] => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}
