//! Loop splitting along the vectorised axis at the boundaries of a piecewise stored value, such as a concatenation; and
//! loop unswitching, if a tile is within one piece because the pieces follow each other along another axis.

use kiln_kernel::analysis::{Boundary, Dependence, invariant_conditions};
use kiln_kernel::{AxisId, NodeId, VerifiedKernel};

use crate::tile::{Tile, VectorAxis};

/// The maximum number of boundaries at which a loop is split: each piece is separate code.
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

/// The maximum number of versions of the loops of a unit.
pub(crate) const MAX_VERSIONS: u32 = 8;

/// The conditions that are tested once per unit of work instead of per element: those of selections that are the same at all
/// points of a tile.
pub fn unswitched(kernel: &VerifiedKernel, dependence: &Dependence, tile: &Tile) -> Vec<NodeId> {
    let VectorAxis::Outer(vectors) = tile.vector else {
        return Vec::new();
    };
    let rows = tile.rows.map(|(rows, _)| rows);
    let along: Vec<AxisId> = rows.into_iter().chain([vectors]).collect();
    invariant_conditions(kernel, dependence, &along)
}
