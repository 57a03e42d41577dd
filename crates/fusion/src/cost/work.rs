//! The work of an op: its kind and amount, at likely sizes.

use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_symbolic_shape::DimId;

use super::rates::WorkKind;
use crate::op_kind::{OpKind, unit_cost};
use crate::sizes::SizeQueries;

/// The arithmetic of an op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) kind: WorkKind,
    pub(super) amount: f64,
    /// The elements of the result.
    pub(super) results: f64,
}

impl Work {
    pub(super) fn of(graph: &Graph, sizes: &SizeQueries<'_>, op: OpId) -> Self {
        let data = graph.op(op);
        let dims = |value: Option<&ValueId>| -> &[DimId] {
            let ty = value.and_then(|&value| graph.tensor_ty(value));
            ty.map_or(&[], |ty| &ty.dims)
        };
        let count = |dims: &[DimId]| sizes.likely_product(dims) as f64;
        let left = dims(data.operands.first());
        // The elements of the weights by which one output (or, if transposed, one input) of a channel is multiplied.
        let taps = || dims(data.operands.get(1)).get(1..).unwrap_or(&[]);
        let results = count(dims(data.results.first()));
        let (kind, amount) = match &data.op {
            Op::Matmul { .. } => {
                let depth = left.last().map_or(1, |&depth| sizes.likely(depth));
                (WorkKind::Product, results * depth as f64)
            }
            Op::Conv { window, .. } => {
                let is_one = |&dim: &DimId| sizes.likely(dim) == 1;
                let (channels, kernel) = taps().split_at(taps().len().min(1));
                let kind = if channels.iter().all(is_one) {
                    WorkKind::Depthwise
                } else if window.strides.iter().any(|&stride| stride > 1) {
                    WorkKind::StridedWindow
                } else if kernel.iter().all(is_one) {
                    WorkKind::Product
                } else {
                    WorkKind::Window
                };
                (kind, results * count(taps()))
            }
            Op::ConvTranspose { .. } => (WorkKind::Transposed, count(left) * count(taps())),
            Op::Pool { size, .. } | Op::ArgPool { size, .. } => {
                let taps: i64 = size.iter().copied().fold(1, i64::saturating_mul);
                (WorkKind::Pool, results * taps.max(1) as f64)
            }
            other => {
                let points = match OpKind::of(other) {
                    OpKind::Reduction => count(left),
                    _ => results,
                };
                (WorkKind::Simple, points * unit_cost(other) as f64)
            }
        };
        Self {
            kind,
            amount,
            results,
        }
    }
}
