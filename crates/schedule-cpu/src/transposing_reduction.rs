//! Transposing reductions: dot products that are contiguous along the reduced axis, computed a vector of results at a time.

use kiln_kernel::analysis::is_multiple;
use kiln_kernel::{AxisId, Reduction, StageId, StageOperation, VerifiedKernel};

use crate::value_cost::is_plain;

/// Whether an array of dot products, vectorised along the reduced axis, can be computed a vector of results at a time:
/// whole vectors of a float sum over one axis, for one axis of results.
pub(crate) fn transposes(
    kernel: &VerifiedKernel,
    lanes: u32,
    stage: StageId,
    along: AxisId,
) -> bool {
    let stage = kernel.stage(stage);
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        axes,
        accumulator,
    } = &stage.operation
    else {
        return false;
    };
    let (&[own], &[reduced]) = (stage.axes.as_slice(), axes.as_slice()) else {
        return false;
    };
    own != along
        && accumulator.is_float()
        && is_multiple(kernel, reduced, lanes)
        && is_plain(kernel, stage.value)
}
