//! Kernels whose points depend on each other: carry blocks, and stores that join what is there. One point at a time,
//! with vectors inside; or, where steps do the same for neighbouring points, a vector of points at a time.

use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{AxisId, Extent, Role, Stage, StageOperation, VerifiedKernel};

use super::cost::{Access, accesses};
use super::plan::Plan;
use super::rows::{lanes, tail};
use super::tile::{Tile, VectorAxis};
use kiln_backend::IsaLevel;

/// Elements of the vectors' axis that one unit of a kernel without steps covers, where no axis runs in order.
const JOINED_CHUNK: u32 = 1024;

/// Whether a kernel has a store that joins what is there.
pub(super) fn is_serial(kernel: &VerifiedKernel) -> bool {
    kernel
        .buffers()
        .values()
        .any(|buffer| buffer.role == Role::InOut)
}

/// The outer axis along which vectors run: each point goes its own way, and neighbours are read and written together.
fn vector_axis(kernel: &VerifiedKernel) -> Option<AxisId> {
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
    let is_near = |access: &Access| {
        let step = access.step(axis).and_then(|step| step.as_constant());
        match step {
            Some(1) => true,
            // Lanes that join what is there join different elements.
            Some(0) => !(joins && access.is_store),
            _ => false,
        }
    };
    let is_free = !joins || !must_run_in_order(kernel, axis);
    (is_free && accesses.iter().all(is_near)).then_some(axis)
}

pub(super) fn plan(kernel: &VerifiedKernel, level: IsaLevel) -> Plan {
    let lanes = lanes(kernel, level);
    let vector = match vector_axis(kernel).filter(|_| lanes > 1) {
        Some(axis) => VectorAxis::Outer(axis),
        None => VectorAxis::Inner,
    };
    let mut others = kernel.outer().iter();
    let runs_free = is_serial(kernel) && !others.any(|&axis| must_run_in_order(kernel, axis));
    let set = 2 * lanes;
    Plan {
        tile: Tile {
            rows: None,
            spread: false,
            vector,
            lanes,
            vectors: 2,
            tail: tail(kernel, level),
        },
        chunk: match runs_free {
            true => JOINED_CHUNK.next_multiple_of(set),
            false => set,
        },
        ..Plan::default()
    }
}
