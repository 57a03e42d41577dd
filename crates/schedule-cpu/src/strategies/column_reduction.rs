//! Column reductions: sums down the rows of an array, with a vector of columns per accumulator.
//!
//! Each step reads a run of a row, and the next step another row. Runs of a few vectors use a part of each page that they
//! touch, and too few lines in a row for the hardware to prefetch; twice as many are two long runs at no more latency.

use super::Proposal;
use super::problem::{Kind, Problem};
use crate::loops::When;
use crate::tile::Tile;

/// Vectors per tile: as many accumulators, in half the registers of the smallest level.
const VECTORS: u32 = 8;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let base = &problem.base;
    let (Kind::Reduction, Some(columns), None) = (base.kind, problem.columns(), base.tile.rows)
    else {
        return Vec::new();
    };
    let tile = Tile {
        vectors: VECTORS,
        ..base.tile
    };
    let run = tile.lanes * tile.vectors;
    vec![Proposal::new(When::at_least(columns, run), tile, run)]
}
