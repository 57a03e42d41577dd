//! Kernels whose points depend on each other: carry blocks, and stores that join what is there. One point at a time,
//! with vectors inside.

use kiln_kernel::VerifiedKernel;

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

pub(super) fn plan(kernel: &VerifiedKernel, level: IsaLevel) -> Plan {
    let lanes = lanes(kernel, level);
    Plan {
        tile: Tile {
            rows: None,
            spread: false,
            vector: VectorAxis::Inner,
            lanes,
            vectors: 2,
            tail: tail(kernel, level),
        },
        chunk: 2 * lanes,
        ..Plan::default()
    }
}
