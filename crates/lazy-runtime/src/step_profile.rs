//! The cost of each step of a run: [`StepProfile`].

use std::time::Duration;

use kiln_ir::OpId;
use kiln_program::{Action, Step, kernel_operations};

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
    /// The ops of the graph that it computed.
    pub ops: Vec<OpId>,
    /// When it began, on the runtime's clock: the difference from the first step's start is its position in the call.
    pub begin: Duration,
    /// Its duration, until the device was done.
    pub time: Duration,
    /// The largest number of tasks that a launch distributed among threads; 1 if one thread computes it.
    pub tasks: u64,
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
        // A fault is reported at the end of the segment, when its origin is known; on a device that runs asynchronously
        // to its caller, now.
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
                        kernel_operations(self.program.kernel(launch.kernel), &plan.symbols)
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
        let tasks = match plan {
            StepPlan::Kernel(plan) => {
                let phases = plan.numbers.phases().iter();
                phases.map(|phase| phase.tasks).max().unwrap_or(1)
            }
            _ => 1,
        };
        if let Some(profile) = self.profile.as_deref_mut() {
            profile.push(StepProfile {
                step: step.name.clone(),
                kind: step.action.as_word(),
                class,
                variant,
                ops: step.ops.clone(),
                begin,
                tasks,
                time: end.saturating_sub(begin),
                bytes,
                operations,
            });
        }
        Ok(())
    }
}
