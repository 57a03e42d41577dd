//! The loops over outer points, distributed as tasks.
//!
//! The parallel outer axes are cut into *units*: a row tile, a chunk of the vectorised axis, and one point of each other
//! axis. Consecutive units differ in their rows first, to read the same columns, or in their columns first, to write the
//! same rows. A task is a run of consecutive units.

use inkwell::IntPredicate;
use kiln_backend::{Phase, Quantity};
use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, VerifiedKernel};
use kiln_schedule_cpu::{ScheduledNest, VectorAxis, plain_stores, split_at, unswitched};

use super::context::KernelLowering;
use super::launch::LaunchBuilder;
use super::packing::emit_copy;
use super::scope::Scope;
use super::split_reduction::emit_partial_reductions;
use super::tables::emit_tables;
use super::winograd::emit_winograd;
use crate::emit::Value;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;

/// Emits the functions of the phases of a kernel.
pub(crate) fn emit_nest(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    nest: &ScheduledNest,
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    if let Some(winograd) = &nest.winograd {
        return emit_winograd(module, kernel, (nest, winograd), launch);
    }
    for copy in &nest.copies {
        emit_copy(module, kernel, nest, copy, launch)?;
    }
    if let Some(split) = &nest.split {
        emit_partial_reductions(module, kernel, (nest, split), launch)?;
    }
    if let Some(tables) = &nest.tables {
        emit_tables(module, kernel, (nest, tables), launch)?;
    }
    let dependence = Dependence::of(kernel);
    let entry = launch.next_entry();
    let laid_out = (nest.packs.as_slice(), nest.copies.as_slice());
    let phase = module.phase(&entry);
    let mut lowering = KernelLowering::new(kernel, &dependence, launch, nest, laid_out, phase);
    lowering.split = nest.split.as_ref();
    lowering.tables = nest.tables.as_ref();
    let units = lowering.units()?;
    lowering.fence_non_temporal_stores();
    lowering.emit.return_none();
    launch.phase(Phase {
        entry,
        tasks: nest.when.clone()
            * (units - Quantity::constant(is_on(Fault::MissingUnit).into()))
                .ceil_div(nest.units_per_task.clone()),
        block: 1,
        // Arrays of vectors may be long at sizes at which another nest runs.
        scratch: nest.when.clone() * lowering.scratch_bytes(),
    });
    Ok(())
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Emits every unit of the kernel; returns their number.
    fn units(&self) -> Result<Quantity, LlvmError> {
        let units = self.nest.n_units(self.kernel);
        self.in_tasks(&units, &self.nest.units_per_task, &mut |unit| {
            self.unit(unit)
        })?;
        Ok(units)
    }

    /// Runs the body for the units of the tasks that a call of the function covers.
    pub(super) fn in_tasks(
        &self,
        units: &Quantity,
        units_per_task: &Quantity,
        body: &mut dyn FnMut(Value<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let per_task = self.quantity(units_per_task);
        let begin = emit.imul(self.parameters.first, per_task);
        let end = emit.imul(self.parameters.last, per_task);
        let end = emit.smin(end, self.quantity(units));
        self.counted(begin, end, emit.i64(1), &[], |unit, _| {
            body(unit)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Computes one unit from its number.
    fn unit(&self, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let (emit, nest, tile) = (&self.emit, self.nest, &self.nest.loops.tile);
        let mut rest = unit;
        let mut scope = Scope::default();
        let split = |rest: &mut Value<'ctx>, pieces: Quantity| {
            if pieces.as_constant() == Some(1) {
                return emit.i64(0);
            }
            let pieces = self.quantity(&pieces);
            let index = emit.urem(*rest, pieces);
            *rest = emit.udiv(*rest, pieces);
            index
        };
        let pieces = |axis, points: u32| {
            let points = Quantity::constant(i64::from(points));
            self.bound(axis).ceil_div(points)
        };
        let columns = match tile.vector {
            VectorAxis::Outer(axis) => Some((axis, pieces(axis, nest.loops.chunk))),
            _ => None,
        };
        let rows = tile.rows.map(|(axis, count)| pieces(axis, count));
        let (row_tile, column) = match (rows, columns) {
            (Some(rows), Some((axis, columns))) if nest.columns_first.as_constant() != Some(0) => {
                let more = nest.columns_first.clone() * (columns.clone() - rows.clone());
                let first = split(&mut rest, rows + more.clone());
                let second = split(&mut rest, columns - more);
                let columns_first = self.quantity(&nest.columns_first);
                let is_swapped = emit.icmp(IntPredicate::NE, columns_first, emit.i64(0));
                let row_tile = emit.select(is_swapped, second, first);
                let column = emit.select(is_swapped, first, second);
                (Some(row_tile), Some((axis, column)))
            }
            (rows, columns) => {
                let row_tile = rows.map(|rows| split(&mut rest, rows));
                let column = columns.map(|(axis, columns)| (axis, split(&mut rest, columns)));
                (row_tile, column)
            }
        };
        let is_tiled = |axis: AxisId| {
            tile.rows.is_some_and(|(rows, _)| rows == axis)
                || column.is_some_and(|(vectors, _)| vectors == axis)
        };
        let others: Vec<AxisId> = self
            .kernel
            .outer()
            .iter()
            .copied()
            .filter(|&axis| !is_tiled(axis))
            .collect();
        for &axis in others.iter().rev() {
            if !must_run_in_order(self.kernel, axis) {
                let index = split(&mut rest, self.bound(axis));
                scope = scope.with_axis(axis, index);
            }
        }
        let serial: Vec<AxisId> = others
            .into_iter()
            .filter(|&axis| must_run_in_order(self.kernel, axis))
            .collect();
        self.over(&scope, &serial, Vec::new(), &mut |scope, _| {
            self.rows(scope, row_tile, column)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The columns of a unit.
    pub(super) fn columns(
        &self,
        scope: &Scope<'ctx>,
        column: Option<(AxisId, Value<'ctx>)>,
    ) -> Result<(), LlvmError> {
        let (emit, nest) = (&self.emit, &self.nest.loops);
        let items = self.kernel.items();
        let Some((axis, chunk)) = column else {
            return self.items(&mut scope.clone(), &nest.tile, items);
        };
        let length = emit.i64(i64::from(nest.chunk));
        let begin = emit.imul(chunk, length);
        let end = emit.smin(emit.iadd(begin, length), self.quantity(&self.bound(axis)));
        let block = self.layout.column_block(&nest.tile);
        let stores = match nest.stream {
            true => plain_stores(self.kernel),
            false => Vec::new(),
        };
        self.hoist_fixed_loads(scope)?;
        let boundaries = split_at(self.kernel, self.dependence, axis, nest.splits);
        let conditions = unswitched(self.kernel, self.dependence, &nest.tile);
        let from = (axis, begin);
        let range = (begin, end, Some(nest.chunk));
        self.unswitched(scope, &conditions, nest.unswitch, &mut |scope| {
            self.non_temporal_or_plain(scope, &stores, from, nest.tile.lanes, &mut |scope| {
                self.in_vectors(scope, axis, &nest.tile, range, block, &mut |scope| {
                    self.split_at_boundaries(scope, axis, &boundaries, &mut |scope| {
                        self.interior_or_edge(scope, axis, &mut |scope| {
                            self.items(&mut scope.clone(), &nest.tile, items)
                        })
                    })
                })
            })
        })
    }
}
