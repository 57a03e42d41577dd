//! Split reductions, for few results over very many elements: split along the reduced axis.
//!
//! The split depends on sizes alone, so results are the same for any number of threads.

use super::Proposal;
use super::problem::Problem;
use crate::loops::{Factor, When};
use crate::split_reductions::SplitReductions;
use crate::tile::{Tile, VectorAxis};

/// The number of operations from which on splitting a reduction with few results pays.
const SHARED_WORK: u32 = 1 << 17;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    if !SplitReductions::applies(problem.kernel) {
        return Vec::new();
    }
    let tile = Tile {
        rows: None,
        spread: false,
        vector: match problem.base.tile.lanes > 1 {
            true => VectorAxis::Inner,
            false => VectorAxis::None,
        },
        ..problem.base.tile
    };
    let when = When::at_least(Factor::Work, SHARED_WORK);
    vec![Proposal {
        split_reductions: true,
        ..Proposal::new(when, tile, problem.base.chunk)
    }]
}
