//! Products with at most half a vector of columns: vectors of half the width, if these are as fast.

use super::problem::Problem;
use super::skinny_gemm::SKINNY_ROWS;
use super::{Proposal, dot_products};
use crate::loops::When;
use crate::packing;
use crate::tile::Tile;

/// Whether half vectors suit a level and a kernel.
pub(super) fn applies(problem: &Problem<'_>) -> bool {
    let copies = packing::copies(problem.kernel, &problem.base.tile);
    problem.level.halves_are_as_fast()
        && packing::are_dense(problem.kernel, &copies)
        && dot_products::operands(problem).is_some()
}

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let Some((rows, columns)) = problem.unpacked_product().filter(|_| applies(problem)) else {
        return Vec::new();
    };
    let half = problem.base.tile.lanes / 2;
    let tile = Tile {
        lanes: half,
        vectors: 1,
        ..problem.base.tile
    };
    let few = When::below(columns, half + 1);
    let several = When::at_least(rows, SKINNY_ROWS + 1);
    vec![Proposal::new(few.and(several), tile, half)]
}
