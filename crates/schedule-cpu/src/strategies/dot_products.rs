//! Products with few columns, or with columns that would have to be gathered: vectors along the reduced axis.
//!
//! No lane is idle, and each row is contiguous; a horizontal sum ends each dot product.

use kiln_backend::PackSpec;
use kiln_kernel::AxisId;

use super::problem::Problem;
use super::{Proposal, half_vectors};
use crate::loops::{Factor, Size, When};
use crate::packing;
use crate::tile::{Tile, VectorAxis};

/// Rows reduced together.
const ROWS: u32 = 4;

/// The column count from which on vectors of half the width beat horizontal sums: measured at 100 rows of 300 and of 2000.
const HALF_VECTOR_COLUMNS: u32 = 3;

/// The minimum depth of a sum per column at which vectors run along the reduced axis although columns could be read in
/// place: a horizontal sum costs as much as a few products of a whole row.
const DEEP: i64 = 12;

/// With less than a vector of columns, if columns could be read in place.
pub(super) fn propose_narrow(problem: &Problem<'_>) -> Vec<Proposal> {
    let Some((rows, columns, copies)) = operands(problem) else {
        return Vec::new();
    };
    let lanes = problem.base.tile.lanes;
    let is_dense = are_dense(problem);
    let narrow = match (is_dense, half_vectors::applies(problem)) {
        (false, _) => lanes,
        // If columns can be read in place, more than half a vector of them beats horizontal sums.
        (true, false) => lanes / 2 + 1,
        (true, true) => HALF_VECTOR_COLUMNS,
    };
    let few = When::below(columns, narrow);
    let when = match packing::reduced(problem.kernel) {
        Some(reduced) if is_dense => {
            let deep = Size::product(DEEP, [Factor::Axis(columns)]);
            few.and(When::at_least(reduced, deep))
        }
        _ => few,
    };
    vec![proposal(problem, when, rows, copies)]
}

/// At all sizes, if columns are not contiguous: without packing, vectors would be gathered.
pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    match operands(problem) {
        Some((rows, _, copies)) if !are_dense(problem) => {
            vec![proposal(problem, When::always(), rows, copies)]
        }
        _ => Vec::new(),
    }
}

fn proposal(problem: &Problem<'_>, when: When, rows: AxisId, copies: Vec<PackSpec>) -> Proposal {
    let tile = Tile {
        rows: Some((rows, ROWS)),
        vector: VectorAxis::Inner,
        ..problem.base.tile
    };
    Proposal::new(when, tile, problem.base.chunk).packing(copies)
}

/// The rows and columns of a product of two operands that are data, and the packing of those that are not contiguous along
/// the reduced axis.
pub(super) fn operands(problem: &Problem<'_>) -> Option<(AxisId, AxisId, Vec<PackSpec>)> {
    let (rows, columns) = problem.unpacked_product()?;
    let copies = packing::along_reduced(problem.kernel, rows)?;
    Some((rows, columns, copies))
}

/// Whether the blocks that a full tile would pack are contiguous without packing.
fn are_dense(problem: &Problem<'_>) -> bool {
    let copies = packing::copies(problem.kernel, &problem.base.tile);
    packing::are_dense(problem.kernel, &copies)
}
