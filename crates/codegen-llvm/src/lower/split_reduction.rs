//! Split reductions: those with few results are split along a reduced axis, and the next phase combines the partial
//! results.
//!
//! The split depends on sizes alone, never on threads, so results are the same for any number of threads: each part is
//! reduced like a complete reduction, and the parts are combined in order. A reduction that reads the result of an
//! earlier one combines it again in each task, with at most [`SplitReductions::MAX_PARTS`] operations.

use kiln_backend::{Phase, Quantity};
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{Item, StageId, StageOperation, VerifiedKernel};
use kiln_schedule_cpu::{ScheduledNest, SplitReduction, SplitReductions};

use super::context::KernelLowering;
use super::launch::LaunchBuilder;
use super::scope::{AxisRange, Coordinate, Place, Scope, StageValue};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;

/// Emits the functions of the phases that compute partial results.
pub(super) fn emit_partial_reductions(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    (nest, split): (&ScheduledNest, &SplitReductions),
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    for share in split.iter() {
        let entry = launch.next_entry();
        let laid_out = (nest.packs.as_slice(), nest.copies.as_slice());
        let phase = module.phase(&entry);
        let mut lowering = KernelLowering::new(kernel, &dependence, launch, nest, laid_out, phase);
        lowering.split = Some(split);
        let units = share.n_units(kernel);
        let one = Quantity::constant(1);
        lowering.in_tasks(&units, &one, &mut |unit| lowering.part(share, unit))?;
        lowering.emit.return_none();
        launch.phase(Phase {
            entry,
            tasks: nest.when.clone() * units,
            block: 1,
            scratch: lowering.scratch_bytes(),
        });
    }
    Ok(())
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// One part of a reduction, at one outer point.
    fn part(&self, share: &SplitReduction, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let parts = self.quantity(&share.n_parts);
        let (part, mut rest) = (emit.urem(unit, parts), emit.udiv(unit, parts));
        let mut scope = Scope::default();
        for &axis in self.kernel.outer().iter().rev() {
            let size = self.quantity(&self.bound(axis));
            scope = scope.with_axis(axis, emit.urem(rest, size));
            rest = emit.udiv(rest, size);
        }
        // The items before the reduction.
        let items = self.kernel.items();
        let place = items
            .iter()
            .position(|item| matches!(item, Item::Stage(stage) if *stage == share.stage));
        let before = items.get(..place.unwrap_or(0)).unwrap_or_default();
        let stages = before.iter().filter(|item| matches!(item, Item::Stage(_)));
        let stages: Vec<Item> = stages.cloned().collect();
        self.items(&mut scope, &self.nest.loops.tile, &stages)?;
        let length = self.quantity(&share.length);
        let begin = emit.imul(part, length);
        let end = emit.smin(
            emit.iadd(begin, length),
            self.quantity(&self.bound(share.axis)),
        );
        let scope = scope.with_axis_range(AxisRange {
            axis: share.axis,
            begin,
            end,
        });
        let points = [Coordinate::default()];
        let reduced = self.reduced(&scope, &self.nest.loops.tile, share.stage, &points)?;
        let dtype = self.kernel.stage_dtype(share.stage);
        for value in reduced {
            emit.store_dtype(dtype, self.place_of_part(share, unit), value);
        }
        Ok(())
    }

    /// The combined value of a stage that was reduced in parts.
    pub(super) fn combined(
        &self,
        scope: &Scope<'ctx>,
        stage: StageId,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let Some(share) = self.split.and_then(|split| split.of_stage(stage)) else {
            return Ok(None);
        };
        let StageOperation::Reduce {
            reduction,
            accumulator,
            ..
        } = &self.kernel.stage(stage).operation
        else {
            return Ok(None);
        };
        let emit = &self.emit;
        let mut point = emit.i64(0);
        for &axis in self.kernel.outer() {
            let size = self.quantity(&self.bound(axis));
            let index = scope.axis(axis).unwrap_or_else(|| emit.i64(0));
            point = emit.iadd(emit.imul(point, size), index);
        }
        let parts = self.quantity(&share.n_parts);
        let first = emit.imul(point, parts);
        let start = self.identity(*reduction, *accumulator);
        let most = Some(SplitReductions::MAX_PARTS.unsigned_abs());
        let range = (emit.i64(0), parts, emit.i64(1));
        let joined = self.counted_up_to(most, range, &[start], |part, carried| {
            let place = self.place_of_part(share, emit.iadd(first, part));
            let value = emit.load_dtype(*accumulator, 1, place);
            let carried = carried.first().copied().unwrap_or(start);
            Ok(vec![self.join(*reduction, *accumulator, carried, value)?])
        })?;
        Ok(joined.first().copied())
    }

    /// Records the local of a stage that was reduced in parts; returns whether it was.
    pub(super) fn place_combined(
        &self,
        scope: &mut Scope<'ctx>,
        stage: StageId,
    ) -> Result<bool, LlvmError> {
        let Some(value) = self.combined(scope, stage)? else {
            return Ok(false);
        };
        let values = [(Coordinate::default(), value)].into_iter().collect();
        scope.place(stage, StageValue::Current, Place::Registers(values));
        Ok(true)
    }

    fn place_of_part(&self, share: &SplitReduction, number: Value<'ctx>) -> Value<'ctx> {
        let emit = &self.emit;
        let bytes = self.kernel.stage_dtype(share.stage).size_in_bytes() as i64;
        let base = self.shared(&share.offset);
        emit.offset(base, emit.imul(number, emit.i64(bytes)))
    }
}
