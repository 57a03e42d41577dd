//! Loop nests: what a schedule means for one kernel, as the numbers from which code is emitted.
//!
//! The parallel outer axes are cut into *units*: a row tile, a chunk of the vectorised axis, and one point of each other
//! axis. Consecutive units differ in their rows first, to read the same columns, or in their columns first, to write the
//! same rows. A task is a run of consecutive units. Each nest has phases of its own, which have no tasks at sizes that
//! another nest serves.

use kiln_backend::{ArtifactBuffer, PackSpec, Quantity, Schedule};
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::{Dependence, must_run_in_order};

use crate::error::ScheduleError;
use crate::launch_packing::{self, PackedCopy};
use crate::plan::Plan;
use crate::prefetch::Prefetch;
use crate::regime::{self, Regime};
use crate::row_remainder::{RowRemainder, row_remainder};
use crate::split_reductions::SplitReductions;
use crate::strides::{bound, buffer_strides, packed_strides};
use crate::tile::{Tile, VectorAxis};
use crate::tile_order::columns_first;
use crate::winograd::Winograd;
use crate::work;

/// Scalar operations that are worth a task.
const TASK_WORK: i64 = 1 << 16;

/// A kernel as a schedule arranges it.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The nests; at any sizes one of them does the kernel's work.
    pub nests: Vec<LoopNest>,
    /// How constants are packed before the first launch.
    pub packs: Vec<PackSpec>,
    /// Bytes of scratch shared by all tasks of all phases.
    pub shared_scratch: Quantity,
}

impl Scheduled {
    /// A kernel under a schedule.
    ///
    /// # Errors
    /// E0506 if the schedule is not one that is offered for the kernel.
    pub fn new(kernel: &VerifiedKernel, schedule: &Schedule) -> Result<Self, ScheduleError> {
        let plan = Plan::from_schedule(kernel, schedule)?;
        let mut shared_scratch = Quantity::constant(0);
        let nests = regime::of_plan(&plan, kernel).into_iter().map(|regime| {
            let (nest, bytes) = LoopNest::of(kernel, regime);
            shared_scratch = shared_scratch.clone() + nest.when.clone() * bytes;
            nest
        });
        Ok(Self {
            nests: nests.collect(),
            packs: plan.packs(kernel),
            shared_scratch,
        })
    }

    /// What a launch must pass for each buffer.
    pub fn buffers(&self, kernel: &VerifiedKernel) -> Vec<ArtifactBuffer> {
        kernel
            .buffers()
            .iter()
            .map(|(id, buffer)| {
                let position = id.as_u32() as usize;
                let elements = match self.packs.iter().find(|pack| pack.buffer == position) {
                    Some(pack) => packed_strides(kernel, pack).1,
                    None => {
                        let size = |dim| Quantity::of(kernel.dims(), dim);
                        let zero = Quantity::constant(0);
                        let one = Quantity::constant(1);
                        // The last element of a buffer that is not empty, plus one.
                        let strides = buffer_strides(kernel, id);
                        let mut last = one.clone();
                        let mut filled = one.clone();
                        for (&dim, stride) in buffer.shape.iter().zip(&strides) {
                            last = last + (size(dim) - one.clone()) * stride.clone();
                            filled = filled.min(size(dim));
                        }
                        (last * filled.min(one)).max(zero)
                    }
                };
                ArtifactBuffer {
                    name: buffer.name.clone(),
                    dtype: buffer.dtype,
                    written: buffer.role.is_written(),
                    bytes: elements * Quantity::constant(buffer.dtype.size_in_bytes() as i64),
                }
            })
            .collect()
    }
}

/// How the points of a kernel are computed, and how they are distributed.
#[derive(Clone, Debug)]
pub struct LoopNest {
    /// What the innermost body computes at once.
    pub tile: Tile,
    /// Elements of a vectorised outer axis per unit; a multiple of the tile's.
    pub chunk: u32,
    /// 1 at the sizes at which consecutive units differ in their columns, 0 where they differ in their rows.
    pub columns_first: Quantity,
    /// Units per task.
    pub units_per_task: Quantity,
    /// How the row remainder is computed.
    pub remainder: RowRemainder,
    /// How constants, and operands packed at launch, are blocked.
    pub packs: Vec<PackSpec>,
    /// Operands that phases before this one pack.
    pub copies: Vec<PackedCopy>,
    /// What is prefetched.
    pub prefetch: Prefetch,
    /// The Winograd transform, where windows use it.
    pub winograd: Option<Winograd>,
    /// Reductions to few results that are split.
    pub split: Option<SplitReductions>,
    /// 1 at the sizes it is for, 0 elsewhere.
    pub when: Quantity,
}

impl LoopNest {
    /// Distributes the points of a regime: enough work per task to be worth it, and tasks for every thread. Also returns
    /// the bytes of scratch that tasks share.
    fn of(kernel: &VerifiedKernel, regime: Regime) -> (Self, Quantity) {
        let one = Quantity::constant(1);
        let (copies, bytes) = launch_packing::place(kernel, regime.copies);
        let bytes = match &regime.winograd {
            Some(winograd) => winograd.shared_bytes(kernel),
            None => bytes,
        };
        // Partial results of split reductions are placed where packed copies would be; no regime has both.
        let (split, bytes) = match regime.split {
            Some((split, parts)) => (Some(split), parts),
            None => (None, bytes),
        };
        let columns_first = columns_first(kernel, &regime.tile, &regime.packs);
        let mut packs = regime.packs;
        let blocked = copies.iter().filter(|copy| copy.is_blocked());
        packs.extend(blocked.map(|copy| copy.spec.clone()));
        let tile = regime.tile;
        let dependence = Dependence::of(kernel);
        let mut nest = Self {
            tile,
            chunk: regime.chunk,
            prefetch: Prefetch::of(kernel, &dependence, &tile, columns_first.clone()),
            columns_first,
            units_per_task: one.clone(),
            remainder: row_remainder(kernel, &tile, &packs, copies.is_empty()),
            packs,
            copies,
            winograd: regime.winograd,
            split,
            when: regime.when,
        };
        let rows = tile.rows.map_or(one.clone(), |(axis, count)| {
            let rows = bound(kernel, axis);
            rows.min(Quantity::constant(i64::from(count)))
        });
        let columns = match tile.vector {
            VectorAxis::Outer(_) => i64::from(nest.chunk),
            _ => 1,
        };
        let work = work::per_point(kernel) * rows * Quantity::constant(columns);
        let worth = Quantity::constant(TASK_WORK).ceil_div(work.max(one.clone()));
        let fair = nest.n_units(kernel).ceil_div(Quantity::threads());
        nest.units_per_task = worth.min(fair).max(one);
        (nest, bytes)
    }

    /// The number of units that a kernel's points are cut into.
    pub fn n_units(&self, kernel: &VerifiedKernel) -> Quantity {
        let mut units = Quantity::constant(1);
        for &axis in kernel.outer() {
            let size = bound(kernel, axis);
            let pieces = match (self.tile.rows, self.tile.vector) {
                (Some((rows, count)), _) if rows == axis => {
                    size.ceil_div(Quantity::constant(i64::from(count)))
                }
                (_, VectorAxis::Outer(vector)) if vector == axis => {
                    size.ceil_div(Quantity::constant(i64::from(self.chunk)))
                }
                _ if must_run_in_order(kernel, axis) => continue,
                _ => size,
            };
            units = units * pieces;
        }
        units
    }
}
