//! Operands given at the call, laid out anew by a phase before the one that computes with them.
//!
//! The layout is that of a packed constant: blocks of one axis innermost, zeros where a block is not full; or whole axes
//! in another order. The copy lies in scratch that all tasks share. A *unit* of the phase is a few blocks of every axis
//! but the one that is looped over, so that what is read next to each other is used together.

mod operand;

use kiln_backend::{PackAxis, PackSpec, Phase, Quantity};
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{BufferId, VerifiedKernel};

use super::context::Lowering;
use super::launch::LaunchBuilder;
use super::nest::Nest;
use super::packed::packed_strides;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use operand::Operand;

/// Elements that are worth a task.
const TASK_ELEMENTS: i64 = 1 << 14;

/// An operand's copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) spec: PackSpec,
    /// Where it is in the scratch that tasks share, in bytes.
    pub(crate) offset: Quantity,
}

impl Copy {
    pub(crate) fn buffer(&self) -> BufferId {
        BufferId::from_u32(self.spec.buffer as u32)
    }

    /// Whether it has blocks, or whole axes alone.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self.spec.axes.last(), Some(PackAxis::Inner { .. }))
    }
}

/// Places copies one after another, and says how many bytes they take.
pub(crate) fn placed(kernel: &VerifiedKernel, specs: Vec<PackSpec>) -> (Vec<Copy>, Quantity) {
    let mut end = Quantity::constant(0);
    let copies = specs
        .into_iter()
        .map(|spec| {
            let dtype = kernel.buffer(BufferId::from_u32(spec.buffer as u32)).dtype;
            let (_, elements) = packed_strides(kernel, &spec);
            let bytes = elements * Quantity::constant(dtype.size_in_bytes() as i64);
            let offset = end.clone();
            end = end.clone() + bytes.round_up(Quantity::constant(64));
            Copy { spec, offset }
        })
        .collect();
    (copies, end)
}

/// Writes the function of a phase that makes a copy.
pub(super) fn emit_copy(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    nest: &Nest,
    copy: &Copy,
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    let entry = launch.next_entry();
    let (emit, parameters) = module.phase(&entry);
    let lowering = Lowering::new(kernel, &dependence, launch, (&[], &[]), emit, parameters);
    let operand = Operand::of(&lowering, nest, copy);
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
