//! Edges of windows along the vectors: where some lanes are in the padding.

use kiln_kernel::analysis::{Dependence, GuardedIndex};
use kiln_kernel::{AxisId, VerifiedKernel};

/// Whether windows that are not products have edges along an axis. In tiles of several vectors, most of an image's row
/// would be computed with the bounds tests of its ends, and so would tiles that are masked throughout.
pub(crate) fn has_edges_along(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
) -> bool {
    let is_inner = |other: &AxisId| !kernel.outer().contains(other);
    let inner: Vec<AxisId> = kernel.axes().keys().filter(is_inner).collect();
    let moves = |guarded: &GuardedIndex| {
        let mut taps = inner.iter();
        dependence.depends(guarded.index, axis)
            && taps.any(|&taps| dependence.depends(guarded.index, taps))
    };
    kernel.classification().contractions.is_empty() && GuardedIndex::all(kernel).iter().any(moves)
}
