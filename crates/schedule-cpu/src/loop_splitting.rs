//! Loop splitting along the vectorised axis at the boundaries of a piecewise stored value, such as a concatenation.

use kiln_kernel::analysis::{Boundary, Dependence};
use kiln_kernel::{AxisId, VerifiedKernel};

/// More boundaries are not told apart: what lies between two is code of its own.
const MOST: usize = 7;

/// The boundaries along an outer axis at which a loop over it is split.
pub fn split_at(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> Vec<Boundary> {
    let mut boundaries = Boundary::all(kernel, dependence, axis);
    boundaries.truncate(MOST);
    boundaries
}
