//! Scheduled kernels: loop nests bound to one kernel, from which code is emitted.
//!
//! The parallel outer axes are cut into *units*: a row tile, a chunk of the vectorised axis, and one point of each other
//! axis. Consecutive units differ in their rows first, to read the same columns, or in their columns first, to write the
//! same rows. A task is a run of consecutive units. Each nest has its own phases, which have no tasks at sizes that another
//! nest handles.

use kiln_backend::{ArtifactBuffer, PackSpec, Quantity, Schedule};
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::{Dependence, must_run_in_order};

use crate::candidates::fallback;
use crate::error::ScheduleError;
use crate::launch_packing::{self, PackedCopy};
use crate::loops::{self, LoopNest, Loops};
use crate::prefetch::Prefetch;
use crate::split_reductions::SplitReductions;
use crate::strides::{bound, buffer_strides, packed_strides};
use crate::tables::Tables;
use crate::tile::VectorAxis;
use crate::winograd::Winograd;
use crate::work;

/// A kernel with a schedule applied.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The nests; at any sizes exactly one of them runs.
    pub nests: Vec<ScheduledNest>,
    /// How constants are packed before the first launch.
    pub packs: Vec<PackSpec>,
    /// Bytes of scratch shared by all tasks of all phases.
    pub shared_scratch: Quantity,
}

impl Scheduled {
    /// A kernel under a schedule: its loops, read from the schedule's text. The fallback needs no text.
    ///
    /// # Errors
    /// E0506 if the text does not describe loops that are valid for the kernel.
    pub fn new(kernel: &VerifiedKernel, schedule: &Schedule) -> Result<Self, ScheduleError> {
        let refused = |reason: String| ScheduleError::Schedule {
            schedule: schedule.to_string(),
            reason,
        };
        let loops = match schedule.text.is_empty() && schedule.is_fallback() {
            true => fallback(kernel),
            false => loops::read(kernel, &schedule.text)
                .map_err(|diagnostic| refused(diagnostic.render(&schedule.text)))?,
        };
        loops::verify(kernel, &loops).map_err(refused)?;
        Ok(Self::of_loops(kernel, loops))
    }

    /// A kernel under valid loops. A launch runs the first nest whose condition holds.
    fn of_loops(kernel: &VerifiedKernel, loops: Loops) -> Self {
        let mut shared_scratch = Quantity::constant(0);
        let mut rest = Quantity::constant(1);
        let mut nests = Vec::new();
        for nest in loops.nests {
            let holds = nest.when.quantity(kernel);
            let when = rest.clone() * holds.clone();
            rest = rest * (Quantity::constant(1) - holds);
            let (nest, bytes) = ScheduledNest::of(kernel, &loops.packs, nest, when);
            shared_scratch = shared_scratch + nest.when.clone() * bytes;
            nests.push(nest);
        }
        Self {
            nests,
            packs: loops.packs,
            shared_scratch,
        }
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
                        // The last element of a non-empty buffer, plus one.
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

/// A loop nest bound to a kernel: the memory of its operands, and the distribution of its points as tasks.
#[derive(Clone, Debug)]
pub struct ScheduledNest {
    /// The loops.
    pub loops: LoopNest,
    /// 1 at the sizes it is for, 0 elsewhere.
    pub when: Quantity,
    /// 1 at sizes where consecutive units differ in their columns, 0 where they differ in their rows.
    pub columns_first: Quantity,
    /// Units per task.
    pub units_per_task: Quantity,
    /// How constants, and operands packed at launch, are blocked.
    pub packs: Vec<PackSpec>,
    /// Operands that phases before this one pack.
    pub copies: Vec<PackedCopy>,
    /// What is prefetched.
    pub prefetch: Prefetch,
    /// The contraction that uses the Winograd transform.
    pub winograd: Option<Winograd>,
    /// The split reductions.
    pub split: Option<SplitReductions>,
    /// Values that a phase before this one tabulates.
    pub tables: Option<Tables>,
}

impl ScheduledNest {
    /// Distributes the points of a nest: enough work per task to be worth it, and tasks for every thread. Also returns the
    /// bytes of scratch shared by tasks.
    fn of(
        kernel: &VerifiedKernel,
        packs: &[PackSpec],
        loops: LoopNest,
        when: Quantity,
    ) -> (Self, Quantity) {
        let one = Quantity::constant(1);
        let (copies, bytes) = launch_packing::place(kernel, loops.copies.clone());
        let tile = loops.tile;
        let winograd = loops
            .winograd
            .and_then(|transform| Winograd::of(kernel, &tile, transform));
        let split = loops
            .split_reductions
            .then(|| SplitReductions::of(kernel))
            .flatten();
        let tables = Tables::of(kernel, &loops);
        // Transformed weights, partial results of split reductions, and tables share the place of packed copies; no nest
        // has two of these.
        let (split, bytes) = match (&winograd, split, &tables) {
            (Some(winograd), ..) => (None, winograd.shared_bytes(kernel)),
            (None, Some((split, parts)), _) => (Some(split), parts),
            (None, None, Some(tables)) => (None, tables.bytes.clone()),
            (None, None, None) => (None, bytes),
        };
        let columns_first = loops.columns_first.quantity(kernel);
        let dependence = Dependence::of(kernel);
        let mut nest = Self {
            prefetch: Prefetch::of(kernel, &dependence, &loops, columns_first.clone()),
            columns_first,
            units_per_task: one.clone(),
            packs: launch_packing::with_blocked(packs, &copies),
            copies,
            winograd,
            split,
            tables,
            when,
            loops,
        };
        let rows = tile.rows.map_or(one.clone(), |(axis, count)| {
            let rows = bound(kernel, axis);
            rows.min(Quantity::constant(i64::from(count)))
        });
        let columns = match tile.vector {
            VectorAxis::Outer(_) => i64::from(nest.loops.chunk),
            _ => 1,
        };
        let work = work::per_point(kernel) * rows * Quantity::constant(columns);
        let task = Quantity::constant(nest.loops.task_operations);
        let worth = task.ceil_div(work.max(one.clone()));
        let fair = nest.n_units(kernel).ceil_div(Quantity::threads());
        nest.units_per_task = worth.min(fair).max(one);
        (nest, bytes)
    }

    /// The number of units into which a kernel's points are divided.
    pub fn n_units(&self, kernel: &VerifiedKernel) -> Quantity {
        let tile = &self.loops.tile;
        let mut units = Quantity::constant(1);
        for &axis in kernel.outer() {
            let size = bound(kernel, axis);
            let pieces = match (tile.rows, tile.vector) {
                (Some((rows, count)), _) if rows == axis => {
                    size.ceil_div(Quantity::constant(i64::from(count)))
                }
                (_, VectorAxis::Outer(vector)) if vector == axis => {
                    size.ceil_div(Quantity::constant(i64::from(self.loops.chunk)))
                }
                _ if must_run_in_order(kernel, axis) => continue,
                _ => size,
            };
            units = units * pieces;
        }
        units
    }
}
