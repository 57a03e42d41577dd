//! The cost of each step of a run: [`StepProfile`].

use std::time::Duration;

use kiln_kernel::{Kernel, Node, StageOperation, VerifiedKernel};
use kiln_program::{Action, Step};

use crate::compile::binding_of;
use crate::plan::{StepPlan, TensorPlace};
use crate::run::{Run, Stop};

/// One step of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepProfile {
    /// The step's name.
    pub step: String,
    /// Its kind: `kernel`, `builtin`, `interpret`.
    pub kind: &'static str,
    /// The class of its kernel.
    pub class: Option<&'static str>,
    /// The schedule of the variant that ran.
    pub variant: Option<String>,
    /// Its duration, until the device was done.
    pub time: Duration,
    /// Bytes of the operands, each counted once.
    pub bytes: u64,
    /// Scalar operations, if they can be counted.
    pub operations: Option<f64>,
}

impl Run<'_> {
    /// Records the cost of a step since it began.
    pub(crate) fn record(
        &mut self,
        step: &Step,
        plan: &StepPlan,
        begin: Duration,
    ) -> Result<(), Stop> {
        // A fault is reported at the end of the segment, when its origin is known; on a device that runs behind its caller, now.
        if self.runtime.executor().has_own_memory() {
            self.finish()?;
        }
        let end = self.runtime.clock().now();
        let of_tensors = |tensors: &[TensorPlace]| {
            tensors
                .iter()
                .map(|tensor| tensor.operand.bytes as u64)
                .sum::<u64>()
        };
        let (bytes, variant, operations) = match plan {
            StepPlan::Kernel(plan) => {
                let bytes = plan
                    .operands
                    .iter()
                    .map(|operand| operand.bytes as u64)
                    .sum();
                let operations = match &step.action {
                    Action::Kernel(launch) => {
                        operations(self.program.kernel(launch.kernel), &plan.symbols)
                    }
                    _ => None,
                };
                (bytes, Some(plan.schedule.to_string()), operations)
            }
            StepPlan::Builtin(plan) => (
                of_tensors(&plan.inputs) + of_tensors(&plan.outputs),
                None,
                None,
            ),
            StepPlan::Dims(values, _) => (values.len() as u64 * 8, None, None),
            StepPlan::Host(reads) | StepPlan::Loop { reads, .. } => (of_tensors(reads), None, None),
            StepPlan::Interpreted { reads, writes, .. } => (
                of_tensors(reads) + of_tensors(writes),
                Some("interpreter".to_owned()),
                None,
            ),
        };
        let class = match &step.action {
            Action::Kernel(launch) => Some(
                self.program
                    .kernel(launch.kernel)
                    .classification()
                    .class
                    .as_word(),
            ),
            _ => None,
        };
        if let Some(profile) = self.profile.as_deref_mut() {
            profile.push(StepProfile {
                step: step.name.clone(),
                kind: step.action.as_word(),
                class,
                variant,
                time: end.saturating_sub(begin),
                bytes,
                operations,
            });
        }
        Ok(())
    }
}

/// Operations of a kernel for these values of its symbols: those of each stage's and store's expression at every point of
/// its axes. `None` for kernels with carry blocks, which are not counted.
fn operations(kernel: &VerifiedKernel, symbols: &[i64]) -> Option<f64> {
    use kiln_kernel::Item;
    let form = kernel.kernel();
    let binding = binding_of(kernel, symbols);
    let points = |axes: &[kiln_kernel::AxisId]| {
        axes.iter().try_fold(1.0, |product, &axis| {
            let bound = form
                .dims()
                .evaluate(form.axis(axis).extent.bound(), &binding)
                .ok()?;
            Some(product * bound.max(0) as f64)
        })
    };
    let outer = points(form.outer())?;
    let mut total = 0.0;
    for item in form.items() {
        total += match item {
            Item::Stage(stage) => {
                let stage = form.stage(*stage);
                let own = points(&stage.axes)?;
                let (reduced, join) = match &stage.operation {
                    StageOperation::Map => (1.0, 0.0),
                    StageOperation::Reduce { axes, .. } => (points(axes)?, 1.0),
                };
                own * reduced * (count(form, stage.value) + join)
            }
            Item::Store(store) => points(&store.axes)? * count(form, store.value),
            Item::Carry(_) => return None,
        };
    }
    Some(total * outer)
}

/// The operations on values in an expression, each node once, without index arithmetic.
fn count(kernel: &Kernel, root: kiln_kernel::NodeId) -> f64 {
    let mut seen = std::collections::HashSet::new();
    let mut pending = vec![root];
    let mut total = 0.0;
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        if let Node::Apply { operands, .. } | Node::Call { operands, .. } = kernel.node(node) {
            total += 1.0;
            pending.extend(operands);
        }
    }
    total
}
