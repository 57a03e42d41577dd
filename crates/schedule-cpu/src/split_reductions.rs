//! Split reductions: those with few results are split along a reduced axis, and the next phase combines the partial
//! results.
//!
//! The split depends on sizes alone, never on threads, so results are the same for any number of threads: each part is
//! reduced like a complete reduction, and the parts are combined in order.

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, Extent, Item, StageId, StageOperation, VerifiedKernel};

use crate::rows_allowed::is_serial;
use crate::strides::bound;

/// Points of each part of the split axis are a multiple of this.
const POINTS: i64 = 64;

/// The maximum number of results for which a reduction is split: more results give enough tasks.
const FEW: i64 = 8;

/// The split reductions of a kernel.
#[derive(Clone, Debug)]
pub struct SplitReductions {
    reductions: Vec<SplitReduction>,
}

/// A split reduction.
#[derive(Clone, Debug)]
pub struct SplitReduction {
    /// Its stage.
    pub stage: StageId,
    /// The reduced axis that is split.
    pub axis: AxisId,
    /// Points of the axis in each part but the last.
    pub length: Quantity,
    /// The number of parts, at most [`SplitReductions::MAX_PARTS`]; 0 for an axis without points.
    pub n_parts: Quantity,
    /// The offset of the partial results in the scratch shared by tasks, in bytes; those of one result are adjacent.
    pub offset: Quantity,
}

impl SplitReductions {
    /// The maximum number of parts of a reduction.
    pub const MAX_PARTS: i64 = 64;

    /// The split reductions of a kernel with few results whose stages are all scalars; also the bytes of the partial
    /// results.
    pub(crate) fn of(kernel: &VerifiedKernel) -> Option<(Self, Quantity)> {
        if n_results(kernel)? > FEW {
            return None;
        }
        let mut reductions = Vec::new();
        let mut end = Quantity::constant(0);
        for item in kernel.items() {
            let id = match item {
                Item::Stage(id) => *id,
                Item::Store(_) => continue,
                Item::Carry(_) => return None,
            };
            let stage = kernel.stage(id);
            if !stage.axes.is_empty() {
                return None;
            }
            let StageOperation::Reduce {
                reduction, axes, ..
            } = &stage.operation
            else {
                continue;
            };
            if reduction.is_arg() {
                return None;
            }
            let is_size = |&&axis: &&AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
            // An axis of unknown size, or otherwise the longest.
            let length = |&&axis: &&AxisId| bound(kernel, axis).as_constant().unwrap_or(i64::MAX);
            let axis = *axes.iter().filter(is_size).max_by_key(length)?;
            let size = bound(kernel, axis);
            let length = size.clone().ceil_div(Quantity::constant(Self::MAX_PARTS));
            let length = length.round_up(Quantity::constant(POINTS));
            let length = length.max(Quantity::constant(POINTS));
            let n_parts = size.ceil_div(length.clone());
            let bytes = kernel.stage_dtype(id).size_in_bytes() as i64;
            reductions.push(SplitReduction {
                stage: id,
                axis,
                length,
                n_parts,
                offset: end.clone(),
            });
            let bytes = (bytes * Self::MAX_PARTS * FEW + 63) / 64 * 64;
            end = end + Quantity::constant(bytes);
        }
        (!reductions.is_empty()).then_some((Self { reductions }, end))
    }

    /// Whether a kernel has reductions that may be split.
    pub(crate) fn applies(kernel: &VerifiedKernel) -> bool {
        !is_serial(kernel) && Self::of(kernel).is_some()
    }

    /// The reductions, in the order of the items.
    pub fn iter(&self) -> impl Iterator<Item = &SplitReduction> {
        self.reductions.iter()
    }

    /// The reduction of a stage, if it is split.
    pub fn of_stage(&self, stage: StageId) -> Option<&SplitReduction> {
        self.iter().find(|split| split.stage == stage)
    }
}

impl SplitReduction {
    /// Units of work of its phase: one per part of each result.
    pub fn n_units(&self, kernel: &VerifiedKernel) -> Quantity {
        self.n_parts.clone() * Quantity::constant(n_results(kernel).unwrap_or(0))
    }
}

/// The number of outer points, if it is known.
fn n_results(kernel: &VerifiedKernel) -> Option<i64> {
    let mut points = 1i64;
    for &axis in kernel.outer() {
        points = points.checked_mul(bound(kernel, axis).as_constant()?)?;
    }
    Some(points)
}
