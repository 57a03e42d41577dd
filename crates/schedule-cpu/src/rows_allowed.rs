//! Legality of outer axes as rows or vectors of a tile.

use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Extent, Item, Node, Role, StageId, VerifiedKernel};

/// Whether an axis may be vectorised throughout: loops are of equal length in every lane, and arrays that differ between
/// the lanes, which are then arrays of vectors, are read at one element in all of them.
pub(crate) fn outer_vectors_allowed(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
) -> bool {
    let is_even = |node: &Node| match node {
        Node::Local { stage, indices } => {
            let mut indices = indices.iter();
            !dependence.stage_depends(*stage, axis)
                || indices.all(|&index| !dependence.depends(index, axis))
        }
        _ => true,
    };
    let mut nodes = kernel.nodes().values();
    nodes.all(|data| is_even(&data.node)) && rows_allowed(kernel, dependence, axis)
}

/// The arrays that are arrays of vectors if an axis is vectorised throughout.
pub(crate) fn arrays_of_vectors(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
) -> Vec<StageId> {
    let stages = kernel.stages().iter();
    let differ =
        stages.filter(|(id, stage)| !stage.axes.is_empty() && dependence.stage_depends(*id, axis));
    differ.map(|(id, _)| id).collect()
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
