//! Edges of windows along the vectors: where some lanes are in the padding.

use kiln_kernel::analysis::{Dependence, GuardedIndex};
use kiln_kernel::{AxisId, VerifiedKernel};

/// Whether windows that are no products have edges along an axis. In tiles of several vectors most of a picture's row would
/// be computed with the conditions of its ends, and so would tiles that are masked throughout.
pub(crate) fn has_edges_along(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
) -> bool {
    let guarded = GuardedIndex::all(kernel);
    let mut indices = guarded.iter().map(|guarded| guarded.index);
    kernel.classification().contractions.is_empty()
        && indices.any(|index| dependence.depends(index, axis))
}
