//! The rows of a reduction's tile: their outer axis, and their number.

use kiln_kernel::{AxisId, Item};

use super::problem::Problem;
use crate::cost::Access;
use crate::register_tile::row_axis;
use crate::tile::VectorAxis;

/// Rows that are reduced together although they share no loads.
const STREAMS: u32 = 4;

/// The same for rows that are read again after they are reduced: they should stay in the level-1 cache until then.
const KEPT_STREAMS: u32 = 2;

/// The rows of a tile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TileRows {
    /// The axis, and the maximum number of rows.
    pub(super) axis: Option<(AxisId, u32)>,
    /// Whether they are spread over the axis, as separate streams.
    pub(super) spread: bool,
    /// Another axis that would be equally suitable.
    pub(super) other: Option<AxisId>,
}

/// The rows of a reduction's tile; at most `limit` for products.
pub(super) fn of_reduction(problem: &Problem<'_>, limit: u32) -> TileRows {
    let columns = problem.columns();
    let allowed = |axis| problem.rows_allowed(axis);
    // Items vectorised along an axis of their own are computed row by row, except scalar stages and contractions.
    let together: Vec<Access> = problem
        .accesses
        .iter()
        .filter(|access| columns.is_some() || access.is_together)
        .cloned()
        .collect();
    // Weights have few taps, and if vectors run along channels, taps have no advantage as rows.
    let fills_rows = |axis| {
        let is_short = problem
            .size(axis)
            .is_some_and(|size| size < i64::from(limit));
        allowed(axis) && !(is_short && columns.is_some() && problem.has_long_sums())
    };
    let sharing = row_axis(problem.kernel, &together, columns, &fills_rows)
        .or_else(|| row_axis(problem.kernel, &together, columns, &allowed));
    let Some(first) = sharing else {
        return TileRows {
            axis: stream_axis(problem),
            spread: columns.is_none(),
            other: None,
        };
    };
    let limit = if problem.is_product() { limit } else { STREAMS };
    let other = columns
        .filter(|_| problem.is_contraction())
        .and_then(|vector| {
            let others = |axis| axis != first && allowed(axis);
            let is_shared = |axis: &AxisId| {
                let mut along = together.iter().filter(|access| access.depends(vector));
                along.all(|access| access.depth == 0 || !access.depends(*axis))
            };
            row_axis(problem.kernel, &together, columns, &others)
                .filter(|axis| problem.size(*axis).is_none() && is_shared(axis))
        });
    TileRows {
        axis: Some((first, limit)),
        spread: false,
        other,
    }
}

/// An axis whose points are reduced together although they share no loads, and how many of them.
///
/// Each addition of a sum depends on the one before, so several sums take no longer than one; and several rows are several
/// streams, which use more of the memory bandwidth.
fn stream_axis(problem: &Problem<'_>) -> Option<(AxisId, u32)> {
    let kernel = problem.kernel;
    let outer = kernel.outer();
    let (axis, count) = match problem.vector {
        // The axis next to the vectors: its points read neighbouring memory.
        VectorAxis::Outer(vector) => {
            let axis = outer.iter().rfind(|&&axis| axis != vector)?;
            (*axis, STREAMS)
        }
        _ if kernel.items().iter().any(|item| fills_array(problem, item)) => return None,
        _ if kernel.items().iter().all(|item| problem.is_scalar(item)) => (*outer.last()?, STREAMS),
        _ => (*outer.last()?, KEPT_STREAMS),
    };
    problem.rows_allowed(axis).then_some((axis, count))
}

/// Whether an item fills an array along inner axes.
fn fills_array(problem: &Problem<'_>, item: &Item) -> bool {
    match item {
        Item::Stage(stage) => !problem.kernel.stage(*stage).axes.is_empty(),
        Item::Store(_) => false,
        Item::Carry(_) => true,
    }
}
