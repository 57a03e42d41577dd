//! Kernels whose points depend on each other: carry blocks, and stores that join what is there. One point at a time,
//! with vectors inside; or, where steps do the same for neighbouring points, a vector of points at a time.

use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Extent, Stage, StageOperation, VerifiedKernel};

use super::cost::{Access, accesses};
use super::plan::Plan;
use super::rows::{lanes, tail};
use super::tile::{Tile, VectorAxis};
use kiln_backend::IsaLevel;

/// Whether a kernel has a store that joins what is there.
pub(super) fn is_serial(kernel: &VerifiedKernel) -> bool {
    kernel
        .buffers()
        .values()
        .any(|buffer| buffer.role == kiln_kernel::Role::InOut)
}

/// The outer axis along which vectors run: each point goes its own way, and neighbours are read and written together.
fn vector_axis(kernel: &VerifiedKernel) -> Option<AxisId> {
    let is_map =
        |stage: &Stage| stage.axes.is_empty() && matches!(stage.operation, StageOperation::Map);
    let has_even_steps = kernel
        .axes()
        .values()
        .all(|axis| matches!(axis.extent, Extent::Size(_)));
    if is_serial(kernel) || !has_even_steps || !kernel.stages().values().all(is_map) {
        return None;
    }
    let accesses = accesses(kernel, &Dependence::of(kernel));
    let &axis = kernel.outer().last()?;
    let is_near = |access: &Access| {
        let step = access.step(axis).and_then(|step| step.as_constant());
        matches!(step, Some(0 | 1))
    };
    accesses.iter().all(is_near).then_some(axis)
}

pub(super) fn plan(kernel: &VerifiedKernel, level: IsaLevel) -> Plan {
    let lanes = lanes(kernel, level);
    let vector = match vector_axis(kernel).filter(|_| lanes > 1) {
        Some(axis) => VectorAxis::Outer(axis),
        None => VectorAxis::Inner,
    };
    Plan {
        tile: Tile {
            rows: None,
            spread: false,
            vector,
            lanes,
            vectors: 2,
            tail: tail(kernel, level),
        },
        chunk: 2 * lanes,
        ..Plan::default()
    }
}
