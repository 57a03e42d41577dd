//! A call from its inputs to its outputs, around the steps of the program's body.

use std::sync::Arc;

use kiln_backend::StopSignal;
use kiln_interpreter::bind_symbols;
use kiln_tensor::Tensor;

use super::donation::Inputs;
use super::inputs::{self, Known};
use super::state::{Planned, RunState};
use super::states::States;
use super::walk::Run;
use super::{Entry, Stop};
use crate::call::CallControl;
use crate::error::RuntimeError;
use crate::plan::{Frame, Prepared, SegmentPlan};
use crate::runtime::Runtime;
use crate::step_profile::StepProfile;

/// A call of a program, independent of the plan that serves it.
pub(crate) struct Call<'a> {
    pub(crate) inputs: Inputs<'a>,
    /// The number of the call, counted from 1, as far as the policy distinguishes calls.
    pub(crate) number: u64,
    /// Its cancellation.
    pub(crate) control: Option<&'a Arc<CallControl>>,
    /// Whether its outputs stay in the memory of the device.
    pub(crate) outputs_stay: bool,
}

/// Runs a program's body: into the given tensors, or otherwise into new ones, put into `made`.
pub(crate) fn run_program(
    runtime: &Runtime,
    prepared: &Prepared,
    states: &States,
    call: Call<'_>,
    profile: Option<&mut Vec<StepProfile>>,
    into: Option<&mut [Tensor]>,
    made: &mut Vec<Tensor>,
) -> Result<(), Stop> {
    let program = &prepared.program;
    let state = states
        .take()
        .unwrap_or_else(|| Box::new(RunState::new(runtime.executor().begin())));
    let mut run = Run {
        runtime,
        prepared,
        program,
        state,
        profile,
        call: call.number,
        patience: None,
        control: call.control.map(|control| &**control),
        inputs: call.inputs,
        into,
        made,
        outputs_stay: call.outputs_stay,
    };
    run.state.iterations = 0;
    run.state.began = false;
    let _watched = call.control.map(|control| runtime.watch().over(control));
    if let Some(control) = call.control {
        let signal = Arc::clone(control) as Arc<dyn StopSignal>;
        run.state.execution.stop_when(Some(signal));
    }
    let ran = run.body();
    if call.control.is_some() {
        run.state.execution.stop_when(None);
    }
    run.state.forget_launches();
    states.give(run.state);
    ran
}

impl Run<'_> {
    fn body(&mut self) -> Result<(), Stop> {
        let body = self.program.body();
        let planned = self.plan_of_inputs()?;
        let plan = &planned.plan;
        let mut frame = self.state.take_frame(body, self.prepared.memories(body));
        let ran = self.run_body(plan, &mut frame);
        if ran.is_err() {
            // Running work may write to memory that is reclaimed next, and its faults do not belong to the next run.
            let _forgotten = self.state.execution.finish();
        }
        let reclaimed = self.reclaim(plan, &mut frame);
        let handed_on = self.hand_on_donations(plan, &mut frame, ran.is_ok());
        self.release_inputs(&mut frame);
        self.state.give_frame(body, frame);
        self.state.last_plan = Some(planned);
        ran?;
        Ok(reclaimed.and(handed_on)?)
    }

    /// The plan of the body's first segment.
    fn plan_of_inputs(&mut self) -> Result<Box<Planned>, Stop> {
        // Most calls have the sizes of the previous one, and then need neither a lookup, for which other threads would
        // wait, nor an update of the plan's reference count, to which all threads would write.
        if let Some(planned) = self.state.last_plan.take()
            && planned.inputs.is_of(&self.inputs)
            && self.is_current(&planned.plan)
        {
            return Ok(planned);
        }
        inputs::check(self.program.graph(), &self.inputs)?;
        let (body, key) = (self.program.body(), inputs::sizes_of(&self.inputs));
        let plan = match self.known(body, 0, &key) {
            Some(plan) => plan,
            None => {
                let shapes: Vec<&[usize]> = self.inputs.iter().map(Tensor::shape).collect();
                let binding = bind_symbols(self.program.graph(), &shapes)?;
                self.make(body, 0, binding, &[], key.clone())?
            }
        };
        let inputs = Known::new(&self.inputs, key);
        Ok(Box::new(Planned { inputs, plan }))
    }

    fn run_body(&mut self, first: &Arc<SegmentPlan>, frame: &mut Frame) -> Result<(), Stop> {
        self.upload_inputs(first, frame)?;
        let number = first.use_so_far.count();
        let begin = number.map(|_| self.runtime.clock().now());
        let last = self.segments(self.program.body(), first, frame, Entry::default())?;
        if let (Some(number), Some(begin)) = (number, begin) {
            let time = self.runtime.clock().now().saturating_sub(begin);
            first.use_so_far.add(number, time);
        }
        let last = last.as_deref().unwrap_or(first);
        match self.into {
            Some(_) => self.write_outputs(last, frame)?,
            None => *self.made = self.outputs(last, frame)?,
        }
        Ok(())
    }

    /// Puts the inputs into their places in the frame, reusing memories that earlier calls left there.
    fn upload_inputs(
        &mut self,
        plan: &SegmentPlan,
        frame: &mut Frame,
    ) -> Result<(), Box<RuntimeError>> {
        let (executor, body) = (self.runtime.executor(), self.program.body());
        for (position, &parameter) in self.program.block(body).parameters.iter().enumerate() {
            let Some(index) = self.prepared.memory_of(body, parameter) else {
                continue;
            };
            if !plan.donations.is_empty() && self.take_donation(plan, position, index, frame)? {
                continue;
            }
            let Some(tensor) = self.inputs.get(position) else {
                continue;
            };
            // A copy that cannot be cancelled is left to the device.
            let dense = match self.control {
                Some(_) => Some(self.copied("an input", |goes_on| tensor.dense_while(goes_on))?),
                None => None,
            };
            let tensor = dense.as_ref().unwrap_or(tensor);
            let uploaded = match frame.kept(index) {
                Some(memory) => executor.reupload(Some(tensor), memory),
                None => {
                    let memory = executor.upload(tensor);
                    memory.map(|memory| frame.keep(index, memory))
                }
            };
            uploaded.map_err(RuntimeError::execute("an input"))?;
        }
        Ok(())
    }

    /// Releases the tensors that were uploaded.
    fn release_inputs(&self, frame: &mut Frame) {
        let (executor, body) = (self.runtime.executor(), self.program.body());
        for &parameter in &self.program.block(body).parameters {
            let index = self.prepared.memory_of(body, parameter);
            if let Some(index) = index
                && let Some(memory) = frame.kept(index)
                && executor.reupload(None, memory).is_err()
            {
                frame.drop_memory(index);
            }
        }
    }
}
