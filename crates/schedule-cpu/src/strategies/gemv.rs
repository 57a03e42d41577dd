//! GEMV, and products so shallow that they are bound by their stores: one row and many vectors.

use kiln_kernel::AxisId;

use super::problem::Problem;
use super::{Proposal, skinny_gemm};
use crate::loops::When;
use crate::packing;
use crate::register_tile::skinny_vectors;
use crate::tile::Tile;

/// Vectors per tile.
pub(super) const VECTORS: u32 = 8;

/// The depth of a sum below which a product is bound by its stores, which are then done in long runs.
const SHALLOW: u32 = 4;

/// Bytes of a tile's row that are a long run alone: row by row, 2000 x 2 by 2000 took 500 us instead of 580 with runs of 64
/// bytes, and 440 instead of 350 with runs of 128.
const LONG_RUN: u32 = 128;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    // A skinny GEMM tile of the same width handles single rows equally well.
    if skinny_vectors(problem.level) >= VECTORS {
        return Vec::new();
    }
    let Some((rows, columns)) = skinny_gemm::dense_product(problem) else {
        return Vec::new();
    };
    let tile = Tile {
        rows: None,
        vectors: VECTORS,
        ..problem.base.tile
    };
    let run = tile.lanes * tile.vectors;
    let when = When::below(rows, 2).or(is_store_bound(problem, columns, run));
    vec![Proposal::new(when, tile, run)]
}

/// The sizes at which a product is bound by its stores: shallow sums, and whole runs of columns.
pub(super) fn is_store_bound(problem: &Problem<'_>, columns: AxisId, run: u32) -> When {
    let piece = problem.base.tile.vectors * problem.level.vector_bytes();
    let shallow = if piece < LONG_RUN { SHALLOW } else { 1 };
    match packing::reduced(problem.kernel) {
        Some(reduced) => When::below(reduced, shallow).and(When::at_least(columns, run)),
        None => When::never(),
    }
}
