//! Contractions whose usual row axis is short at run time: tile rows along another axis.

use super::Proposal;
use super::problem::Problem;
use crate::loops::When;
use crate::tile::Tile;

/// The minimum number of points of an axis used as rows, if another axis has enough.
const FEW_ROWS: u32 = 4;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let base = &problem.base;
    let (Some((rows, count)), Some(other)) = (base.tile.rows, base.other_rows) else {
        return Vec::new();
    };
    let tile = Tile {
        rows: Some((other, count)),
        ..base.tile
    };
    let when = When::below(rows, FEW_ROWS).and(When::at_least(other, FEW_ROWS));
    vec![Proposal::new(when, tile, base.chunk)]
}
