//! GEMM whose right operand is data: it is packed at each launch.

use super::Proposal;
use super::problem::Problem;
use crate::loops::When;
use crate::packing::{self, SCATTERED_ROWS};
use crate::tile::VectorAxis;

/// The row count from which on packing a shared operand at each launch pays.
const ROWS: u32 = 32;

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
    let many = When::at_least(rows, if is_dense { ROWS } else { SCATTERED_ROWS });
    // Columns that fill one block are as contiguous as a packed copy.
    let when = match tile.vector {
        VectorAxis::Outer(columns) if is_dense => {
            many.and(When::at_least(columns, tile.lanes * tile.vectors + 1))
        }
        _ => many,
    };
    vec![Proposal::new(when, *tile, problem.base.chunk).packing(copies)]
}
