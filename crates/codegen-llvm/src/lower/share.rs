//! Reductions to few results, shared out: each over parts of a reduced axis, by phases of their own, whose sums the
//! phases after them join.
//!
//! How an axis is cut depends on sizes alone, never on threads, so results are the same whatever the number of threads:
//! each part is reduced as a whole one would be, and the parts are joined one by one, the first first. A reduction that
//! reads the result of an earlier one joins that anew in each task, which is at most [`PARTS`] operations.

use kiln_backend::{Phase, Quantity};
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Extent, Item, StageId, StageOperation, VerifiedKernel};

use super::context::Lowering;
use super::identity::identity;
use super::launch::LaunchBuilder;
use super::nest::Nest;
use super::scope::{Coordinate, Moment, Part, Place, Scope};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;

/// Parts of a reduction, at the most.
const PARTS: i64 = 64;

/// Points of the axis that is cut in each part are a multiple of so many.
const POINTS: i64 = 64;

/// Results that are too few to be shared out themselves, at the most.
const FEW: i64 = 8;

/// The reductions of a kernel that are shared out.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    stages: Vec<Share>,
}

/// One of them.
#[derive(Clone, Debug)]
struct Share {
    stage: StageId,
    /// The reduced axis that is cut.
    axis: AxisId,
    /// Points of the axis in each part but the last.
    length: Quantity,
    /// How many parts there are: none for an axis without points.
    parts: Quantity,
    /// Where the parts' results are in the scratch that tasks share, in bytes.
    offset: Quantity,
}

impl Shares {
    /// Of a kernel with few results, all of whose stages are single numbers; and the bytes that the parts take.
    pub(crate) fn of(kernel: &VerifiedKernel) -> Option<(Shares, Quantity)> {
        if results(kernel)? > FEW {
            return None;
        }
        let mut stages = Vec::new();
        let mut end = Quantity::constant(0);
        for item in kernel.items() {
            let id = match item {
                Item::Stage(id) => *id,
                Item::Store(_) => continue,
                Item::Carry(_) => return None,
            };
            let stage = kernel.stage(id);
            if !stage.axes.is_empty() {
                return None;
            }
            let StageOperation::Reduce {
                reduction, axes, ..
            } = &stage.operation
            else {
                continue;
            };
            if reduction.is_arg() {
                return None;
            }
            let is_size = |&&axis: &&AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
            // An axis of unknown size, or else the longest.
            let length = |&&axis: &&AxisId| bound(kernel, axis).as_constant().unwrap_or(i64::MAX);
            let axis = *axes.iter().filter(is_size).max_by_key(length)?;
            let size = bound(kernel, axis);
            let length = size.clone().ceil_div(Quantity::constant(PARTS));
            let length = length.round_up(Quantity::constant(POINTS));
            let length = length.max(Quantity::constant(POINTS));
            let parts = size.ceil_div(length.clone());
            let bytes = kernel.stage_dtype(id).size_in_bytes() as i64;
            let share = Share {
                stage: id,
                axis,
                length,
                parts,
                offset: end.clone(),
            };
            stages.push(share);
            end = end + Quantity::constant((bytes * PARTS * FEW + 63) / 64 * 64);
        }
        (!stages.is_empty()).then_some((Shares { stages }, end))
    }

    fn of_stage(&self, stage: StageId) -> Option<&Share> {
        self.stages.iter().find(|share| share.stage == stage)
    }
}

/// The number of outer points, where it is known.
fn results(kernel: &VerifiedKernel) -> Option<i64> {
    let mut points = 1i64;
    for &axis in kernel.outer() {
        points = points.checked_mul(bound(kernel, axis).as_constant()?)?;
    }
    Some(points)
}

fn bound(kernel: &VerifiedKernel, axis: AxisId) -> Quantity {
    Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound())
}

/// Writes the functions of the phases that reduce the parts.
pub(super) fn emit_shares(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    (nest, shares): (&Nest, &Shares),
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    for share in &shares.stages {
        let entry = launch.next_entry();
        let (emit, parameters) = module.phase(&entry);
        let laid_out = (nest.packs.as_slice(), nest.copies.as_slice());
        let mut lowering = Lowering::new(kernel, &dependence, launch, laid_out, emit, parameters);
        lowering.shares = Some(shares);
        let units = share.parts.clone() * Quantity::constant(results(kernel).unwrap_or(0));
        let one = Quantity::constant(1);
        lowering.in_tasks(&units, &one, &mut |unit| lowering.part(nest, share, unit))?;
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

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// One part of a reduction, at one outer point.
    fn part(&self, nest: &Nest, share: &Share, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let parts = self.quantity(&share.parts);
        let (part, mut rest) = (emit.urem(unit, parts), emit.udiv(unit, parts));
        let mut scope = Scope::default();
        for &axis in self.kernel.outer().iter().rev() {
            let size = self.quantity(&bound(self.kernel, axis));
            scope = scope.with_axis(axis, emit.urem(rest, size));
            rest = emit.udiv(rest, size);
        }
        // What is computed before it.
        let items = self.kernel.items();
        let place = items
            .iter()
            .position(|item| matches!(item, Item::Stage(stage) if *stage == share.stage));
        let before = items.get(..place.unwrap_or(0)).unwrap_or_default();
        let stages = before.iter().filter(|item| matches!(item, Item::Stage(_)));
        let stages: Vec<Item> = stages.cloned().collect();
        self.items(&mut scope, &nest.tile, &stages)?;
        let length = self.quantity(&share.length);
        let begin = emit.imul(part, length);
        let end = emit.smin(
            emit.iadd(begin, length),
            self.quantity(&bound(self.kernel, share.axis)),
        );
        let scope = scope.with_part(Part {
            axis: share.axis,
            begin,
            end,
        });
        let points = [Coordinate::default()];
        let reduced = self.reduced(&scope, &nest.tile, share.stage, &points)?;
        let dtype = self.kernel.stage_dtype(share.stage);
        for value in reduced {
            emit.store_dtype(dtype, self.place_of_part(share, unit), value);
        }
        Ok(())
    }

    /// What a stage is if it was reduced in parts.
    pub(super) fn joined(
        &self,
        scope: &Scope<'ctx>,
        stage: StageId,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let Some(share) = self.shares.and_then(|shares| shares.of_stage(stage)) else {
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
            let size = self.quantity(&bound(self.kernel, axis));
            let index = scope.axis(axis).unwrap_or_else(|| emit.i64(0));
            point = emit.iadd(emit.imul(point, size), index);
        }
        let parts = self.quantity(&share.parts);
        let first = emit.imul(point, parts);
        let start = self.literal(identity(*reduction, *accumulator));
        let most = Some(PARTS.unsigned_abs());
        let range = (emit.i64(0), parts, emit.i64(1));
        let joined = self.counted_up_to(most, range, &[start], |part, carried| {
            let place = self.place_of_part(share, emit.iadd(first, part));
            let value = emit.load_dtype(*accumulator, 1, place);
            let carried = carried.first().copied().unwrap_or(start);
            Ok(vec![self.join(*reduction, *accumulator, carried, value)?])
        })?;
        Ok(joined.first().copied())
    }

    /// Places a stage that was reduced in parts; says whether it was.
    pub(super) fn place_joined(
        &self,
        scope: &mut Scope<'ctx>,
        stage: StageId,
    ) -> Result<bool, LlvmError> {
        let Some(value) = self.joined(scope, stage)? else {
            return Ok(false);
        };
        let values = [(Coordinate::default(), value)].into_iter().collect();
        scope.place(stage, Moment::Now, Place::Registers(values));
        Ok(true)
    }

    fn place_of_part(&self, share: &Share, number: Value<'ctx>) -> Value<'ctx> {
        let emit = &self.emit;
        let bytes = self.kernel.stage_dtype(share.stage).size_in_bytes() as i64;
        let base = self.shared(&share.offset);
        emit.offset(base, emit.imul(number, emit.i64(bytes)))
    }
}
