//! The cost model: bytes moved, operations, launches, at likely sizes.
//!
//! Rough on purpose: it orders candidates and says what a fusion is worth, and never decides whether
//! one is right. Fixed costs are those of a CPU with a few cores.

use std::collections::BTreeSet;

use kiln_ir::{Definition, Graph, Op, OpId, ValueId};

use crate::benefit::FusionBenefit;
use crate::op_kind::{OpKind, unit_cost};
use crate::sizes::Sizes;

/// What launching a kernel takes, in nanoseconds.
const LAUNCH: f64 = 2_000.0;
/// Bytes moved per nanosecond.
const BYTES_PER_NS: f64 = 20.0;
/// Multiply-adds per nanosecond in a contraction's or window's schedule, on all threads.
const PRODUCTS_PER_NS: f64 = 100.0;
/// Simple operations per nanosecond elsewhere.
const OPERATIONS_PER_NS: f64 = 32.0;

/// What a set of ops costs as one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) bytes: u64,
    pub(crate) nanoseconds: f64,
    pub(crate) kernels: usize,
}

/// The cost of some ops that give `outputs` to others, as one kernel.
pub(crate) fn of_kernel(
    graph: &Graph,
    sizes: &Sizes<'_>,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
) -> Cost {
    let written = outputs.iter().map(|&value| bytes(graph, sizes, value));
    let read = inputs(graph, ops).into_iter().map(|value| {
        let readers = ops.iter().flat_map(|&op| reads(graph, sizes, op, value));
        readers.max().unwrap_or(0)
    });
    let bytes = written.chain(read).fold(0, u64::saturating_add);
    let work: f64 = ops.iter().map(|&op| work(graph, sizes, op)).sum();
    Cost {
        bytes,
        nanoseconds: LAUNCH + (bytes as f64 / BYTES_PER_NS).max(work),
        kernels: 1,
    }
}

/// What joining saves.
pub(crate) fn benefit(parts: &[Cost], together: Cost, complexity: u64) -> FusionBenefit {
    let apart: f64 = parts.iter().map(|part| part.nanoseconds).sum();
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    let kernels: usize = parts.iter().map(|part| part.kernels).sum();
    FusionBenefit {
        estimated_speedup: apart / together.nanoseconds.max(1.0),
        bytes_saved: bytes.saturating_sub(together.bytes),
        bytes_moved: together.bytes,
        kernels_removed: kernels.saturating_sub(1),
        complexity,
        nanoseconds_apart: apart,
        nanoseconds: together.nanoseconds,
    }
}

/// What a set of ops reads from outside, in order of first use.
pub(crate) fn inputs(graph: &Graph, ops: &BTreeSet<OpId>) -> Vec<ValueId> {
    let mut seen = BTreeSet::new();
    let operands = ops.iter().flat_map(|&op| &graph.op(op).operands).copied();
    operands
        .filter(|&value| {
            let inside = match graph.value(value).definition {
                Definition::Result { op, .. } => ops.contains(&op),
                Definition::Parameter { .. } => false,
            };
            !inside && seen.insert(value)
        })
        .collect()
}

fn bytes(graph: &Graph, sizes: &Sizes<'_>, value: ValueId) -> u64 {
    graph
        .tensor_ty(value)
        .map_or(0, |ty| sizes.likely_bytes(ty))
}

/// The bytes of a value that an op reads, if it does: what an op selects is what it reads.
fn reads(graph: &Graph, sizes: &Sizes<'_>, op: OpId, value: ValueId) -> Option<u64> {
    let data = graph.op(op);
    let position = data.operands.iter().position(|&operand| operand == value)?;
    let all = bytes(graph, sizes, value);
    let selects = matches!(
        data.op,
        Op::Slice { .. } | Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. }
    );
    let result = data
        .results
        .first()
        .map(|&value| bytes(graph, sizes, value));
    Some(match result {
        Some(result) if selects && position == 0 => all.min(result),
        _ => all,
    })
}

/// Nanoseconds of an op's arithmetic.
fn work(graph: &Graph, sizes: &Sizes<'_>, op: OpId) -> f64 {
    let data = graph.op(op);
    let elements = |value: Option<&ValueId>| {
        let ty = value.and_then(|&value| graph.tensor_ty(value));
        ty.map_or(0, |ty| sizes.likely_elements(ty)) as f64
    };
    let result = elements(data.results.first());
    let products = |depth: f64| result * depth / PRODUCTS_PER_NS;
    match &data.op {
        Op::Matmul { .. } => {
            let dims = data
                .operands
                .first()
                .and_then(|&left| graph.tensor_ty(left));
            let depth = dims.and_then(|ty| ty.dims.last().copied());
            products(depth.map_or(1.0, |depth| sizes.likely(depth) as f64))
        }
        Op::Conv { .. } | Op::ConvTranspose { .. } => {
            let weights = data
                .operands
                .get(1)
                .and_then(|&value| graph.tensor_ty(value));
            let per_output = weights.map_or(1, |ty| {
                sizes.likely_product(ty.dims.get(1..).unwrap_or(&[]))
            });
            products(per_output as f64)
        }
        Op::Pool { size, .. } => {
            let taps: i64 = size.iter().product();
            result * taps.max(1) as f64 / OPERATIONS_PER_NS
        }
        other => {
            let points = match OpKind::of(other) {
                OpKind::Reduction => elements(data.operands.first()),
                _ => result,
            };
            points * unit_cost(other) as f64 / OPERATIONS_PER_NS
        }
    }
}
