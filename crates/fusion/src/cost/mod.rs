//! The cost model: bytes moved, work done and launches, at likely sizes.
//!
//! Deliberately rough: it orders candidates and estimates their benefit, and never decides legality. Its parameters
//! depend on the device: see [`rates`].

mod effort;
mod rates;
mod traffic;
mod work;

#[cfg(test)]
mod tests;

pub use effort::Effort;
pub use rates::{Rates, WorkKind};
pub(crate) use traffic::inputs;

use std::collections::BTreeSet;

use kiln_ir::{Graph, OpId, ValueId};

use crate::benefit::FusionBenefit;
use crate::sizes::SizeQueries;
use traffic::Traffic;

/// The cost of a set of ops as one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) bytes: u64,
    pub(crate) nanoseconds: f64,
    pub(crate) kernels: usize,
}

/// The cost of some ops that provide `outputs` to others, as one kernel.
pub(crate) fn of_kernel(
    graph: &Graph,
    sizes: &SizeQueries<'_>,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
) -> Cost {
    let traffic = Traffic::of(graph, sizes, ops, outputs);
    let effort = Effort::of(graph, sizes, ops, traffic);
    Cost {
        bytes: traffic.memory.saturating_add(traffic.constants),
        nanoseconds: effort.nanoseconds + effort.overhead,
        kernels: 1,
    }
}

/// The bound of these ops as one kernel.
pub(crate) fn effort(
    graph: &Graph,
    sizes: &SizeQueries<'_>,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
) -> Effort {
    Effort::of(graph, sizes, ops, Traffic::of(graph, sizes, ops, outputs))
}

/// The savings of a join.
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
