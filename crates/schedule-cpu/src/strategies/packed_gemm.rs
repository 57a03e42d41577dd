//! GEMM whose right operand is data: it is packed at each launch, and so is a left operand that is read across its rows.

use kiln_backend::PackSpec;
use kiln_kernel::{AxisId, BufferId, Node, NodeId};

use super::Proposal;
use super::problem::Problem;
use crate::loops::{Factor, Size, When};
use crate::packing::{self, SCATTERED_ROWS};
use crate::tile::VectorAxis;

/// The row count from which on packing a shared operand at each launch pays.
const ROWS: u32 = 32;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// The number of columns from which on packing an operand that is read across its rows pays.
const COLUMNS: u32 = 96;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let (kernel, tile) = (problem.kernel, &problem.base.tile);
    let Some((rows, _)) = tile.rows.filter(|_| problem.is_product()) else {
        return Vec::new();
    };
    let copies = packing::copies(kernel, tile);
    if copies.is_empty() {
        return Vec::new();
    }
    let is_dense = packing::are_dense(kernel, &copies);
    let many = match is_dense {
        true => When::at_least(rows, ROWS),
        false => When::at_least(uses(problem, rows, &copies), SCATTERED_ROWS),
    };
    // Columns that fill one block are as contiguous as a packed copy.
    let when = match tile.vector {
        VectorAxis::Outer(columns) if is_dense => {
            many.and(When::at_least(columns, tile.lanes * tile.vectors + 1))
        }
        _ => many,
    };
    let proposal = |when, copies| Proposal::new(when, *tile, problem.base.chunk).packing(copies);
    let both =
        with_rows(problem, &copies).map(|(pays, both)| proposal(when.clone().and(pays), both));
    both.into_iter().chain([proposal(when, copies)]).collect()
}

/// The copies with those of operands that are read across their rows, and the sizes at which these pay: each step of a tile
/// reads a line of its own, and the lines do not stay in the first cache until the next tile reads the rest of them. Of
/// 1024 x 1024 x 256, whose lines are moreover on separate pages, it makes 4.7 ms of 11.
fn with_rows(problem: &Problem<'_>, copies: &[PackSpec]) -> Option<(When, Vec<PackSpec>)> {
    let (kernel, tile) = (problem.kernel, &problem.base.tile);
    let (columns, steps) = (problem.columns()?, packing::reduced(kernel)?);
    let rows = packing::row_copies(kernel, tile);
    let pays = When::at_least(Size::product(LINE, [Factor::Axis(steps)]), Factor::Cache(1))
        .and(When::at_least(columns, COLUMNS));
    (!rows.is_empty()).then(|| (pays, [copies, &rows].concat()))
}

/// How often each element of the packed operands is used: once per row, and by the taps of windows that slide over it.
fn uses(problem: &Problem<'_>, rows: AxisId, copies: &[PackSpec]) -> Size {
    let kernel = problem.kernel;
    let is_copied = |id: BufferId| {
        let mut buffers = copies.iter().map(|copy| copy.buffer);
        buffers.any(|buffer| buffer == id.as_u32() as usize)
    };
    let indices: Vec<NodeId> = kernel
        .buffers()
        .keys()
        .filter(|&id| is_copied(id))
        .flat_map(|id| kernel.accesses(id))
        .flatten()
        .copied()
        .collect();
    let is_plain = |axis: AxisId| {
        let mut indices = indices.iter();
        indices.any(|&index| matches!(kernel.node(index), Node::Axis(other) if *other == axis))
    };
    let is_tap = |axis: &AxisId| *axis != rows && problem.size(*axis).is_some() && !is_plain(*axis);
    let outer = kernel.outer().iter().copied();
    Size::product(
        1,
        [rows]
            .into_iter()
            .chain(outer.filter(is_tap))
            .map(Factor::Axis),
    )
}
