//! Skinny GEMM, with two or three rows: computed together, with as many vectors as fit in the registers.

use kiln_kernel::AxisId;

use super::problem::Problem;
use super::{Proposal, gemv};
use crate::loops::When;
use crate::packing;
use crate::register_tile::skinny_vectors;
use crate::tile::Tile;

/// The maximum row count: too few for a full tile.
pub(crate) const SKINNY_ROWS: u32 = 3;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let Some((rows, columns)) = dense_product(problem) else {
        return Vec::new();
    };
    let tile = Tile {
        rows: Some((rows, SKINNY_ROWS)),
        vectors: skinny_vectors(problem.level),
        ..problem.base.tile
    };
    let run = tile.lanes * tile.vectors;
    let few = When::below(rows, SKINNY_ROWS + 1);
    let when = match tile.vectors >= gemv::VECTORS {
        true => few.or(gemv::is_store_bound(problem, columns, run)),
        false => few,
    };
    vec![Proposal::new(when, tile, run)]
}

/// The rows and columns of a product whose operands are data, with contiguous columns.
pub(super) fn dense_product(problem: &Problem<'_>) -> Option<(AxisId, AxisId)> {
    let copies = packing::copies(problem.kernel, &problem.base.tile);
    let is_dense = packing::are_dense(problem.kernel, &copies);
    problem.unpacked_product().filter(|_| is_dense)
}
