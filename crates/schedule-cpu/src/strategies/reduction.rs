//! Reductions at their usual sizes: contractions, sliding windows, and sums of rows or columns.
//!
//! If the points of another outer axis share loads inside reductions, a tile has several rows of it.

use kiln_kernel::{AxisId, StageOperation};

use super::problem::{Base, Kind, Problem};
use super::{Proposal, rows};
use crate::loops::When;
use crate::register_tile::{contraction_shape, fitting, joined_shape, tail};
use crate::sliding::sliding_window;
use crate::tile::Tile;
use crate::tile_choice::Work;
use crate::window_edges::has_edges_along;

/// Rows of a sliding-window tile: their sums, a row of weights and an element fit the registers.
const SLIDING_ROWS: u32 = 8;

/// Sets of single vectors per unit, since each is little work.
const SETS: u32 = 8;

/// Vectors of a tile without rows.
const VECTORS: u32 = 4;

pub(super) fn propose_sliding_window(problem: &Problem<'_>) -> Vec<Proposal> {
    of_kind(problem, Kind::SlidingWindow)
}

pub(super) fn propose_contraction(problem: &Problem<'_>) -> Vec<Proposal> {
    of_kind(problem, Kind::Contraction)
}

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    of_kind(problem, Kind::Reduction)
}

fn of_kind(problem: &Problem<'_>, kind: Kind) -> Vec<Proposal> {
    let base = &problem.base;
    match base.kind == kind {
        true => vec![Proposal::new(When::always(), base.tile, base.chunk)],
        false => Vec::new(),
    }
}

/// The tile of a kernel with reductions.
pub(super) fn base(problem: &Problem<'_>) -> Base {
    let (kernel, level, lanes) = (problem.kernel, problem.level, problem.lanes);
    let columns = problem.columns();
    let width = columns.and_then(|axis| problem.size(axis));
    let work = Work::of(kernel, problem.vector);
    let (limit, vectors) = match kernel.classification().contractions.len() {
        0 | 1 => contraction_shape(level, work, width, lanes),
        _ => joined_shape(level, work, width, lanes),
    };
    let found = rows::of_reduction(problem, limit);
    let fits = |(axis, limit)| (axis, fitting(limit, problem.size(axis)));
    let mut rows = found.axis.map(fits).filter(|&(_, count)| count > 1);
    let slides = match (rows, columns) {
        (Some((axis, _)), Some(columns)) => is_sliding_window(problem, axis, columns),
        _ => false,
    };
    if slides {
        rows = rows.map(|(axis, _)| (axis, fitting(SLIDING_ROWS, problem.size(axis))));
    }
    let in_single_vectors =
        slides || columns.is_some_and(|axis| has_edges_along(kernel, &problem.dependence, axis));
    let vectors = match width {
        Some(size) if size <= i64::from(lanes) => 1,
        _ if rows.is_none() => VECTORS,
        _ if in_single_vectors => 1,
        _ => vectors,
    };
    let tile = Tile {
        rows,
        spread: rows.is_some() && found.spread,
        vector: problem.vector,
        lanes,
        vectors,
        tail: tail(kernel, level),
    };
    let set = lanes * vectors;
    Base {
        kind: match (slides, problem.is_product()) {
            (true, _) => Kind::SlidingWindow,
            (_, true) => Kind::Contraction,
            (_, false) => Kind::Reduction,
        },
        tile,
        chunk: if in_single_vectors { SETS * set } else { set },
        // Constants are packed in the same way in all nests.
        other_rows: found.other.filter(|&other| {
            let rows = tile.rows.map(|(_, count)| (other, count));
            let (usual, other) = (problem.packs_of(&tile), Tile { rows, ..tile });
            rows.is_some() && (usual.is_empty() || usual == problem.packs_of(&other))
        }),
    }
}

/// Whether a window slides along rows, with an element per lane.
fn is_sliding_window(problem: &Problem<'_>, rows: AxisId, columns: AxisId) -> bool {
    let (kernel, dependence) = (problem.kernel, &problem.dependence);
    kernel.stages().values().any(|stage| {
        let StageOperation::Reduce { axes, .. } = &stage.operation else {
            return false;
        };
        let taps = axes.last();
        let window =
            taps.and_then(|&taps| sliding_window(kernel, dependence, stage.value, rows, taps));
        window.is_some_and(|window| {
            window.is_shared(SLIDING_ROWS) && dependence.depends(window.load, columns)
        })
    })
}
