//! Legality of outer axes as rows or vectors of a tile.

use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Extent, Item, Role, VerifiedKernel};

/// Whether an axis may be vectorised throughout: locals fit registers, and loops are of equal length in every lane.
pub(crate) fn outer_vectors_allowed(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
) -> bool {
    let arrays = kernel
        .stages()
        .iter()
        .all(|(id, stage)| stage.axes.is_empty() || !dependence.stage_depends(id, axis));
    arrays && rows_allowed(kernel, dependence, axis)
}

/// Whether several points of an axis may be computed together: loops are of equal length at each of them.
pub(crate) fn rows_allowed(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    let even = kernel.axes().values().all(|other| match other.extent {
        Extent::Size(_) => true,
        Extent::Clamped { value, .. } => !dependence.depends(value, axis),
    });
    even && !kernel
        .items()
        .iter()
        .any(|item| matches!(item, Item::Carry(_)))
}

/// Whether a kernel has a combining store.
pub(crate) fn is_serial(kernel: &VerifiedKernel) -> bool {
    kernel
        .buffers()
        .values()
        .any(|buffer| buffer.role == Role::InOut)
}
