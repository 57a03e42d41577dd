//! Loop splitting along the vectorised axis at the boundaries of a piecewise stored value, such as a concatenation.

use kiln_kernel::analysis::{Boundary, Dependence};
use kiln_kernel::{AxisId, VerifiedKernel};

/// The most boundaries at which a loop is split: each piece is separate code.
pub(crate) const MAX_SPLITS: u32 = 7;

/// The first `most` boundaries along an outer axis, at which a loop over it is split.
pub fn split_at(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
    most: u32,
) -> Vec<Boundary> {
    let mut boundaries = Boundary::all(kernel, dependence, axis);
    boundaries.truncate(most as usize);
    boundaries
}
