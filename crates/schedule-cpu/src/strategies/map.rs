//! Maps: independent points, in runs of vectors along one axis.

use kiln_kernel::AxisId;

use super::Proposal;
use super::problem::{Base, Kind, Problem};
use crate::loop_splitting::{MAX_SPLITS, split_at};
use crate::loops::When;
use crate::register_tile::tail;
use crate::tile::Tile;

/// Elements of a vectorised outer axis per unit of work.
pub(super) const CHUNK: u32 = 4096;

/// Vectors per tile.
const VECTORS: u32 = 4;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    match problem.base.kind {
        Kind::Map => vec![Proposal::new(
            When::always(),
            problem.base.tile,
            problem.base.chunk,
        )],
        _ => Vec::new(),
    }
}

/// The tile of a kernel without reductions.
pub(super) fn base(problem: &Problem<'_>) -> Base {
    let columns = problem.columns();
    let vectors = match columns.and_then(|axis| problem.size(axis)) {
        Some(size) if size <= i64::from(problem.lanes) => 1,
        _ => vectors_per_piece(problem, columns),
    };
    let tile = Tile {
        rows: None,
        spread: false,
        vector: problem.vector,
        lanes: problem.lanes,
        vectors,
        tail: tail(problem.kernel, problem.level),
    };
    Base {
        kind: Kind::Map,
        tile,
        chunk: CHUNK.next_multiple_of(tile.lanes * tile.vectors),
        other_rows: None,
    }
}

/// Vectors per tile: as many as never cross a piece, if the boundaries of a piecewise value are constants.
fn vectors_per_piece(problem: &Problem<'_>, columns: Option<AxisId>) -> u32 {
    let (kernel, lanes) = (problem.kernel, problem.lanes);
    let boundaries = columns.map_or(Vec::new(), |axis| {
        split_at(kernel, &problem.dependence, axis, MAX_SPLITS)
    });
    let ends = boundaries.iter();
    let ends: Vec<i64> = ends.filter_map(|end| end.constant_end(kernel)).collect();
    let is_unbroken = |vectors: &u32| ends.iter().all(|end| end % i64::from(lanes * vectors) == 0);
    (1..=VECTORS).rev().find(is_unbroken).unwrap_or(VECTORS)
}
