//! Passing work to the device: the kernels of a plan, one at a time or in batches on devices that accept them, and
//! builtins.
//!
//! The safety contract with the device, for all of a run: a run owns its memories exclusively, except constants and
//! inputs, which no launch writes; and the program's memory plan separates values that are live at the same time.
#![allow(
    unsafe_code,
    reason = "what the device is promised about memory is vouched for here"
)]

use std::ops::Range;
use std::sync::Arc;

use kiln_backend::{BatchKey, Builtin, BuiltinOperand, Launch, LoadedKernel, MemorySlice};
use kiln_program::{BlockId, Step};
use smallvec::SmallVec;

use super::Stop;
use super::state::Launched;
use super::walk::Run;
use crate::compile::CompiledKernel;
use crate::error::RuntimeError;
use crate::plan::{Frame, KernelPlan, Rival, SegmentPlan, StepPlan};

type Slices<'a> = SmallVec<[MemorySlice<'a>; 8]>;

impl SegmentPlan {
    /// The kernel of a step that launches nothing else: no variant alternates with it.
    fn plain_kernel(&self, position: usize) -> Option<&KernelPlan> {
        match self.steps.get(position) {
            Some(StepPlan::Kernel(kernel)) if kernel.rival.is_none() => Some(kernel),
            _ => None,
        }
    }

    /// The end of the launches that can be submitted together with the one at this step.
    pub(super) fn batch_end(&self, first: usize) -> usize {
        let is_plain = |&position: &usize| self.plain_kernel(position).is_some();
        let count = (first..self.steps.len()).take_while(is_plain).count();
        first + count
    }
}

impl Run<'_> {
    /// Records the next launch, so that a fault can be traced back to its step.
    pub(super) fn note_launch(
        &mut self,
        block: BlockId,
        segment: usize,
        step: usize,
        compiled: &Arc<CompiledKernel>,
    ) {
        // Only if the code may fault: all threads that run the kernel count its references.
        if !compiled.artifact.fault_sites.is_empty() {
            self.state.launched.push(Launched {
                number: self.state.n_launches,
                block,
                segment,
                step,
                compiled: Arc::clone(compiled),
            });
        }
        self.state.n_launches += 1;
    }

    /// Launches a step's kernel, or its variant in this round.
    pub(super) fn launch(
        &mut self,
        step: &Step,
        plan: &KernelPlan,
        rival: Option<&Rival>,
        frame: &Frame,
    ) -> Result<(), Stop> {
        let (code, numbers) = match rival {
            Some(rival) => (&rival.trial.code, &rival.numbers),
            None => (&plan.compiled, &plan.numbers),
        };
        let buffers = slices(plan, frame)?;
        let launch = Launch {
            buffers: &buffers,
            numbers,
        };
        // SAFETY: see the header of this file.
        let launched = unsafe { self.state.execution.launch(&code.loaded, &launch) };
        Ok(launched.map_err(|error| RuntimeError::execute(step.name.as_str())(error))?)
    }

    /// Launches the kernels of these steps, with one call of the device.
    pub(super) fn launch_batch(
        &mut self,
        block: BlockId,
        segment: usize,
        plan: &SegmentPlan,
        batch: Range<usize>,
        frame: &Frame,
    ) -> Result<(), Stop> {
        let mut buffers: Vec<(&KernelPlan, Slices<'_>)> = Vec::with_capacity(batch.len());
        for position in batch.clone() {
            let Some(kernel) = plan.plain_kernel(position) else {
                return Err(
                    RuntimeError::malformed("a batch that contains more than launches").into(),
                );
            };
            self.note_launch(block, segment, position, &kernel.compiled);
            buffers.push((kernel, slices(kernel, frame)?));
        }
        let launches = buffers.iter().map(|(kernel, buffers)| {
            let launch = Launch {
                buffers,
                numbers: &kernel.numbers,
            };
            (&kernel.compiled.loaded, launch)
        });
        let launches: Vec<(&LoadedKernel, Launch<'_>)> = launches.collect();
        let key = BatchKey {
            plan: plan.id,
            first: batch.start,
        };
        // SAFETY: see the header of this file.
        let launched = unsafe { self.state.execution.launch_batch(key, &launches) };
        launched.map_err(|(number, error)| {
            let steps = &self.program.block(block).segments[segment].steps;
            let step = steps.get(batch.start + number);
            let name = step.map_or("a batch of launches", |step| step.name.as_str());
            RuntimeError::execute(name)(error).into()
        })
    }
}

impl Run<'_> {
    /// Has the device run a builtin.
    pub(super) fn run_builtin(
        &mut self,
        name: &str,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), Box<RuntimeError>> {
        // SAFETY: see the header of this file.
        let ran = unsafe { self.state.execution.run_builtin(builtin, inputs, outputs) };
        Ok(ran.map_err(RuntimeError::execute(name))?)
    }
}

/// The operands of a kernel as parts of memory.
fn slices<'a>(plan: &'a KernelPlan, frame: &'a Frame) -> Result<Slices<'a>, Box<RuntimeError>> {
    let mut slices = Slices::new();
    for operand in &plan.operands {
        slices.push(frame.slice(operand)?);
    }
    Ok(slices)
}
