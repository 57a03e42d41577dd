//! Maps: independent points, in runs of vectors along one axis.

use kiln_kernel::AxisId;

use super::Proposal;
use super::problem::{Base, Kind, Problem};
use crate::loop_splitting::{MAX_SPLITS, split_at};
use crate::loops::{Factor, Size, When};
use crate::register_tile::tail;
use crate::tables::{MAX_TABLES, tabulated};
use crate::tile::Tile;

/// Elements of a vectorised outer axis per unit of work.
pub(super) const CHUNK: u32 = 4096;

/// The minimum number of points of other axes for which a phase that tabulates values pays.
const USERS: u32 = 8;

/// Vectors per tile.
pub(super) const VECTORS: u32 = 4;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    match problem.base.kind {
        Kind::Map => {
            let proposal = |when| Proposal::new(when, problem.base.tile, problem.base.chunk);
            let plain = proposal(When::always());
            with_tables(problem, proposal)
                .into_iter()
                .chain([plain])
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Tabulates the values that vary only along the vectors, if enough points of other axes use them.
fn with_tables(problem: &Problem<'_>, proposal: impl Fn(When) -> Proposal) -> Option<Proposal> {
    let columns = problem.columns()?;
    let found = tabulated(problem.kernel, &problem.dependence, &problem.base.tile).len();
    let tables = u32::try_from(found).unwrap_or(u32::MAX).min(MAX_TABLES);
    let outer = problem.kernel.outer().iter().copied();
    let others = outer.filter(|&axis| axis != columns).map(Factor::Axis);
    let users = Size::product(1, others);
    let proposal = proposal(When::at_least(users, USERS));
    (tables > 0).then_some(Proposal { tables, ..proposal })
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

/// Vectors per tile, chosen so that none crosses a boundary of a piecewise value if the boundaries are constants.
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
