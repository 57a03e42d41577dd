//! The division of a vectorised axis into vectors: full sets of vectors, then a masked or scalar remainder.

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::{Dependence, is_multiple};
use kiln_kernel::{AxisId, Class, VerifiedKernel};

use crate::strides::bound;
use crate::tile::{Tail, Tile};
use crate::window_edges::has_edges_along;

/// Tiles of at least this many vectors are that wide because they have few rows.
const WIDE: u32 = 8;

/// How one axis is cut into vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorSteps {
    /// The axis.
    pub axis: AxisId,
    /// The row counts of the tiles that are cut like this; all other tiles if empty.
    pub rows: Option<u32>,
    /// The steps, each for the remainder of the one before.
    pub steps: Vec<VectorStep>,
}

/// A loop over sets of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorStep {
    /// Sets of this many vectors with every lane in range.
    Whole(u32),
    /// Sets of this many vectors, all whole except the last vector, while at least that many remain.
    NearlyWhole(u32),
    /// The remainder in sets of some vectors, of which the first `full` have every lane in range.
    Masked {
        /// Vectors of a set.
        vectors: u32,
        /// Vectors without a mask.
        full: u32,
    },
    /// The remainder as one masked set, if it is more than `above` vectors; otherwise as single masked vectors.
    MaskedAbove {
        /// The number of vectors up to which single ones are used.
        above: u32,
        /// Vectors of the set.
        vectors: u32,
        /// Vectors without a mask.
        full: u32,
    },
    /// Element by element.
    Scalar,
}

/// How an axis is cut into vectors of a tile, in its full form or with fewer rows.
pub(crate) fn vector_steps(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    level: IsaLevel,
    tile: &Tile,
    (axis, rows): (AxisId, u32),
) -> Vec<VectorStep> {
    let (lanes, vectors) = (tile.lanes, tile.vectors);
    let full_rows = tile.rows.map_or(1, |(_, count)| count);
    let is_slow = level.has_slow_masked_stores();
    let is_wide = vectors >= WIDE;
    // Contractions over an unknown number of columns. The arithmetic outweighs the masks of a set, and a separate body
    // for whole sets would be more code to compile; this does not apply with as many vectors as there are mask
    // registers, or to a single row.
    let is_open_product = kernel.classification().class == Class::Contraction
        && bound(kernel, axis).as_constant().is_none()
        && tile.tail == Tail::Masked
        && !is_slow
        && (!is_wide || (rows > 1 && rows < full_rows));
    let masked = |vectors| VectorStep::Masked { vectors, full: 0 };
    if is_open_product {
        // In a row remainder there is little to save.
        return match (vectors == 1 || rows < full_rows, is_wide) {
            (true, false) => vec![masked(vectors)],
            (true, true) => vec![masked(vectors / 2)],
            (false, _) => vec![VectorStep::NearlyWhole(vectors), masked(1)],
        };
    }
    let mut steps = Vec::new();
    let is_full = is_multiple(kernel, axis, lanes * vectors);
    if vectors > 1 || is_full {
        steps.push(VectorStep::Whole(vectors));
    }
    if is_full {
        return steps;
    }
    if is_multiple(kernel, axis, lanes) {
        steps.push(VectorStep::Whole(1));
        return steps;
    }
    if tile.tail == Tail::Scalar {
        steps.extend([VectorStep::Whole(1), VectorStep::Scalar]);
        return steps;
    }
    let masks_one = match is_wide {
        true => is_slow,
        false => rows == 1 || (vectors == 1 && has_edges_along(kernel, dependence, axis)),
    };
    if masks_one {
        // At most one masked vector: its stores take longer than most of the computation here.
        if is_wide {
            steps.push(VectorStep::Whole(vectors / 2));
        }
        steps.extend([VectorStep::Whole(1), masked(1)]);
    } else if vectors == 1 && is_transpose(kernel, tile) {
        // Masks are needed only for the last vector of a row, and cost more than the copy.
        steps.extend([VectorStep::Whole(1), masked(1)]);
    } else if vectors == 1 || (!is_wide && !is_slow && rows < full_rows) {
        // In a row remainder there is little to save, and each number of vectors is more code to compile.
        steps.push(masked(vectors));
    } else if is_wide && rows > 1 {
        // With several rows, half as many vectors give enough accumulators.
        steps.push(masked(vectors / 2));
    } else {
        // A single vector is computed separately; with operands shared by other rows, so is an incomplete set.
        steps.push(match is_wide {
            true => VectorStep::MaskedAbove {
                above: 1,
                vectors: vectors / 2,
                full: 0,
            },
            false => VectorStep::MaskedAbove {
                above: vectors - 1,
                vectors,
                full: vectors - 1,
            },
        });
    }
    steps
}

/// Whether a tile is one that is transposed in registers.
fn is_transpose(kernel: &VerifiedKernel, tile: &Tile) -> bool {
    let is_square = tile.rows.is_some_and(|(_, rows)| rows == tile.lanes);
    kernel.classification().class == Class::Map && is_square && tile.vectors == 1
}
