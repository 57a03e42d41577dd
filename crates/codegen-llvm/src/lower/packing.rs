//! Packing of operands at launch, as a phase that precedes the computation.
//!
//! The layout is that of a packed constant: blocks of one axis innermost, zero-padded, or whole axes in a different
//! order. The packed copy is in scratch memory shared by all tasks. A *unit* of the phase is a few blocks of every axis
//! but the looped one, so that reads are contiguous.

mod operand;

use kiln_backend::{Phase, Quantity};
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::Dependence;
use kiln_schedule_cpu::{PackedCopy, ScheduledNest};

use super::context::KernelLowering;
use super::launch::LaunchBuilder;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use operand::PackedOperand;

/// Elements per task.
const TASK_ELEMENTS: i64 = 1 << 14;

/// Emits the function of a phase that packs an operand.
pub(super) fn emit_copy(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    nest: &ScheduledNest,
    copy: &PackedCopy,
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    let entry = launch.next_entry();
    let phase = module.phase(&entry);
    let lowering = KernelLowering::new(kernel, &dependence, launch, nest, (&[], &[]), phase);
    let operand = PackedOperand::of(&lowering, nest, copy);
    let per_unit = operand.per_unit();
    let fair = operand
        .units()
        .ceil_div(Quantity::threads() * Quantity::constant(4));
    let one = Quantity::constant(1);
    let worth = Quantity::constant(TASK_ELEMENTS).ceil_div(per_unit.max(one.clone()));
    let units_per_task = worth.min(fair).max(one);
    lowering.in_tasks(&operand.units(), &units_per_task, &mut |unit| {
        operand.unit(&lowering, unit)
    })?;
    lowering.emit.return_none();
    launch.phase(Phase {
        entry,
        tasks: nest.when.clone() * operand.units().ceil_div(units_per_task),
        block: 1,
        scratch: Quantity::constant(0),
    });
    Ok(())
}
