//! Transposes: maps whose operand is contiguous along a different axis than the vectors of their result. A tile with
//! one row of that axis per lane is transposed in registers.

use kiln_kernel::{AxisId, Node};

use super::problem::{Base, Kind, Problem};
use super::{Proposal, map};
use crate::cost::Access;
use crate::loops::When;
use crate::register_tile::tail;
use crate::tile::{Tile, VectorAxis};

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    match problem.base.kind {
        Kind::Transpose => vec![Proposal::new(
            has_columns(problem),
            problem.base.tile,
            problem.base.chunk,
        )],
        _ => Vec::new(),
    }
}

/// Vectors along the axis that is read contiguously, for results whose rows are too short for vectors.
pub(super) fn propose_short(problem: &Problem<'_>) -> Vec<Proposal> {
    let Some((rows, _)) = problem.base.tile.rows else {
        return Vec::new();
    };
    let tile = Tile {
        rows: None,
        vector: VectorAxis::Outer(rows),
        ..problem.base.tile
    };
    match problem.base.kind {
        Kind::Transpose => vec![Proposal::new(
            When::at_least(rows, problem.lanes / 4),
            tile,
            problem.base.chunk,
        )],
        _ => Vec::new(),
    }
}

/// Vectors along the rows of the result, gathered, for operands whose rows are short.
pub(super) fn propose_gathered(problem: &Problem<'_>) -> Vec<Proposal> {
    let tile = Tile {
        rows: None,
        vectors: map::VECTORS,
        ..problem.base.tile
    };
    let chunk = map::CHUNK.next_multiple_of(tile.lanes * tile.vectors);
    match problem.base.kind {
        Kind::Transpose => vec![Proposal::new(When::always(), tile, chunk)],
        _ => Vec::new(),
    }
}

/// Sizes at which rows of the result fill half a vector, and rows of the operand a quarter.
fn has_columns(problem: &Problem<'_>) -> When {
    let rows = problem.base.tile.rows.map(|(rows, _)| rows);
    match (problem.columns(), rows) {
        // Other vectors would cut across the blocks of packed operands.
        _ if !problem.packs.is_empty() => When::always(),
        (Some(columns), Some(rows)) => {
            let fills_columns = When::at_least(columns, problem.lanes / 2);
            fills_columns.and(When::at_least(rows, problem.lanes / 4))
        }
        _ => When::always(),
    }
}

/// The tile of a transpose; `None` for any other kernel.
pub(super) fn base(problem: &Problem<'_>) -> Option<Base> {
    let columns = problem.columns()?;
    let lanes = problem.lanes;
    let rows = read_axis(problem, columns)?;
    let tile = Tile {
        rows: Some((rows, lanes)),
        spread: false,
        vector: problem.vector,
        lanes,
        vectors: 1,
        tail: tail(problem.kernel, problem.level),
    };
    Some(Base {
        kind: Kind::Transpose,
        tile,
        chunk: map::CHUNK.next_multiple_of(lanes),
        other_rows: None,
    })
}

/// The axis along which the operand of a kernel is contiguous, if its result is contiguous along the vectors.
fn read_axis(problem: &Problem<'_>, columns: AxisId) -> Option<AxisId> {
    let kernel = problem.kernel;
    let mut nodes = kernel.nodes().values();
    let is_plain = nodes.all(|data| match &data.node {
        Node::Load(load) => load.guard.is_none(),
        _ => true,
    });
    let is_long = |&axis: &AxisId| {
        let size = problem.size(axis);
        size.is_none_or(|size| size >= i64::from(problem.lanes))
    };
    let constant = |access: &Access, axis| access.step(axis)?.as_constant();
    let is_read_along = |&axis: &AxisId| {
        let mut loads = problem.accesses.iter().filter(|access| !access.is_store);
        loads.any(|access| {
            let is_apart =
                access.step(columns).is_some() && !matches!(constant(access, columns), Some(0..=2));
            constant(access, axis) == Some(1) && is_apart
        })
    };
    let outer = kernel.outer().iter().copied();
    let mut others = outer.filter(|&axis| axis != columns).filter(is_long);
    let mut stores = problem.accesses.iter().filter(|access| access.is_store);
    let is_written_along = stores.all(|store| constant(store, columns) == Some(1));
    (is_plain && is_written_along)
        .then(|| others.find(is_read_along))
        .flatten()
}
