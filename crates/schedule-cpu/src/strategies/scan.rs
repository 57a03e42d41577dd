//! Scans: kernels whose points depend on each other, through carry blocks or combining stores.
//!
//! One point at a time, vectorised within the point; or, if steps do the same for neighbouring points, a vector of
//! points.

use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{AxisId, Class, Extent, Stage, StageOperation, VerifiedKernel};

use super::Proposal;
use super::problem::{Base, Kind, Problem};
use crate::cost::{Access, accesses};
use crate::loops::When;
use crate::register_tile::tail;
use crate::rows_allowed::is_serial;
use crate::tile::{Tile, VectorAxis};

/// Elements of the vectorised axis per unit of a kernel without carry blocks, where no axis runs in order.
const JOINED_CHUNK: u32 = 1024;

/// The maximum number of carried values for which several vectors are carried per value.
const FEW_CARRIED: usize = 2;

/// Vectors per value for few carried values, since rows are then read in longer runs: a running sum over 200 x 1024 took 65
/// us with two, and takes 42.
const WIDE: u32 = 4;

/// Vectors per value otherwise, since rows a power of two apart would share a cache set.
const NARROW: u32 = 2;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let base = &problem.base;
    match base.kind {
        Kind::Scan => vec![Proposal::new(When::always(), base.tile, base.chunk)],
        _ => Vec::new(),
    }
}

/// Whether the points of a kernel depend on each other.
pub(super) fn is_scan(kernel: &VerifiedKernel) -> bool {
    kernel.classification().class == Class::Scan || is_serial(kernel)
}

/// The outer axis that is vectorised, and whether every access along it is contiguous. Points are independent, and
/// neighbours are written together, or combined with distinct elements anywhere. Step loads may be strided: they are
/// latency-bound, so many points take no longer than one.
fn vector_axis(kernel: &VerifiedKernel) -> Option<(AxisId, bool)> {
    let is_map =
        |stage: &Stage| stage.axes.is_empty() && matches!(stage.operation, StageOperation::Map);
    let has_even_steps = kernel
        .axes()
        .values()
        .all(|axis| matches!(axis.extent, Extent::Size(_)));
    if !has_even_steps || !kernel.stages().values().all(is_map) {
        return None;
    }
    let accesses = accesses(kernel, &Dependence::of(kernel));
    let &axis = kernel.outer().last()?;
    let joins = is_serial(kernel);
    let step = |access: &Access| access.step(axis).and_then(|step| step.as_constant());
    let is_near = |access: &Access| matches!(step(access), Some(0 | 1));
    let (stores, loads): (Vec<&Access>, Vec<&Access>) =
        accesses.iter().partition(|access| access.is_store);
    let all_loads_near = loads.into_iter().all(is_near);
    let all_near = all_loads_near && stores.iter().all(|&store| is_near(store));
    let is_legal = match joins {
        // Points that need not run in order combine distinct elements; those of one element would be lanes of one sum.
        true => {
            let is_distinct = |store: &&Access| step(store) != Some(0);
            all_loads_near && !must_run_in_order(kernel, axis) && stores.iter().all(is_distinct)
        }
        false => stores.iter().all(|&store| is_near(store)),
    };
    is_legal.then_some((axis, all_near))
}

/// The tile of a scan.
pub(super) fn base(problem: &Problem<'_>) -> Base {
    let (kernel, lanes) = (problem.kernel, problem.lanes);
    let (vector, all_near) = match vector_axis(kernel).filter(|_| lanes > 1) {
        Some((axis, all_near)) => (VectorAxis::Outer(axis), all_near),
        None => (VectorAxis::Inner, false),
    };
    let mut others = kernel.outer().iter();
    let runs_free = is_serial(kernel) && !others.any(|&axis| must_run_in_order(kernel, axis));
    let vectors = match all_near && kernel.stages().len() <= FEW_CARRIED {
        true => WIDE,
        false => NARROW,
    };
    let set = vectors * lanes;
    Base {
        kind: Kind::Scan,
        tile: Tile {
            rows: None,
            spread: false,
            vector,
            lanes,
            vectors,
            tail: tail(kernel, problem.level),
        },
        chunk: match runs_free {
            true => JOINED_CHUNK.next_multiple_of(set),
            false => set,
        },
        other_rows: None,
    }
}
