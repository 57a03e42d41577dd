//! The walk over a program's segments and steps: the hot path of a warm call.

use std::sync::Arc;

use kiln_backend::{Builtin, BuiltinOperand, Fault, FaultCause, MemorySlice, StopSignal as _};
use kiln_program::{BlockId, Program, Step};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::Binding;
use kiln_tensor::{Tensor, TensorError};
use kiln_timing::{Counter, Verbosity};
use smallvec::SmallVec;

use super::bind::site_of;
use super::donation::Inputs;
use super::state::RunState;
use super::{Entry, Stop, Value, Why};
use crate::call::CallControl;
use crate::compile::{Counters, Patience};
use crate::error::{RuntimeError, problem_of};
use crate::plan::{
    BuiltinPlan, Frame, Key, MemoryIndex, OwnMemory, Prepared, Refusal, Rival, SegmentPlan,
    StepPlan, TensorPlace, Until, key_of, make_plan,
};
use crate::runtime::Runtime;
use crate::step_profile::StepProfile;

/// A run of a program.
pub(crate) struct Run<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) prepared: &'a Prepared,
    pub(crate) program: &'a Program,
    pub(crate) state: Box<RunState>,
    pub(crate) profile: Option<&'a mut Vec<StepProfile>>,
    /// The number of this call of the program, counted from 1.
    pub(super) call: u64,
    /// How long this call may still wait for code; computed when it is needed.
    pub(super) patience: Option<Patience<'a>>,
    /// The call's cancellation.
    pub(super) control: Option<&'a CallControl>,
    /// The inputs of the call.
    pub(super) inputs: Inputs<'a>,
    /// The tensors for the results, if the caller passed some.
    pub(super) into: Option<&'a mut [Tensor]>,
    /// The results, if the caller passed no tensors.
    pub(super) made: &'a mut Vec<Tensor>,
    /// Whether they stay in the memory of the device.
    pub(super) outputs_stay: bool,
}

/// The operands of a builtin.
type Operands<'a> = SmallVec<[(MemorySlice<'a>, BuiltinOperand<'a>); 2]>;

/// Whether operands are in the same memory, pairwise.
fn are_same(left: &Operands<'_>, right: &Operands<'_>) -> bool {
    let mut pairs = left.iter().zip(right);
    pairs.all(|((left, _), (right, _))| {
        Arc::ptr_eq(left.memory.handle(), right.memory.handle()) && left.offset == right.offset
    })
}

impl Run<'_> {
    /// An existing plan that is still current.
    pub(super) fn known(
        &self,
        block: BlockId,
        segment: usize,
        key: &[i64],
    ) -> Option<Arc<SegmentPlan>> {
        let plan = self.prepared.memo(block, segment).get(key)?;
        self.is_current(&plan).then_some(plan)
    }

    /// Whether a plan is still current, that is, whether its steps cannot have got code, or better code, since it was
    /// made.
    pub(super) fn is_current(&self, plan: &SegmentPlan) -> bool {
        if plan.stale.is_raised() {
            return false;
        }
        let Some(waits) = plan.waits else {
            return true;
        };
        let may_ask = || self.runtime.patience(self.call, None).compiles();
        waits.since == self.runtime.published() && (waits.is_asked_for || !may_ask())
    }

    /// The plan of a segment for these values of symbols.
    pub(super) fn plan(
        &mut self,
        block: BlockId,
        segment: usize,
        binding: Binding,
        earlier: &[Arc<SegmentPlan>],
    ) -> Result<Arc<SegmentPlan>, Stop> {
        let key = key_of(&binding);
        match self.known(block, segment, &key) {
            Some(plan) => Ok(plan),
            None => self.make(block, segment, binding, earlier, key),
        }
    }

    pub(super) fn make(
        &mut self,
        block: BlockId,
        segment: usize,
        binding: Binding,
        earlier: &[Arc<SegmentPlan>],
        key: Key,
    ) -> Result<Arc<SegmentPlan>, Stop> {
        Counters::count(&self.runtime.counters().launch_plans);
        let _span = self.prepared.recorder.launch_plan();
        let (runtime, call, control) = (self.runtime, self.call, self.control);
        let patience = || runtime.patience(call, control);
        let patience = *self.patience.get_or_insert_with(patience);
        match make_plan(
            self.runtime,
            self.prepared,
            block,
            segment,
            binding,
            earlier,
            &patience,
        ) {
            Ok(plan) => {
                let memo = self.prepared.memo(block, segment);
                if let Some(before) = memo.get(&key) {
                    plan.take_over(&before);
                }
                Ok(memo.replace(key, plan))
            }
            Err(Refusal::Facts(facts)) => Err(Stop(Box::new(Why::Facts(facts)))),
            Err(Refusal::Error(error)) => Err(error.into()),
        }
    }

    /// Runs a block whose first segment is planned; returns its results.
    pub(super) fn block(
        &mut self,
        id: BlockId,
        first: &Arc<SegmentPlan>,
        given: impl IntoIterator<Item = (kiln_backend::Memory, usize)>,
    ) -> Result<Vec<Value>, Stop> {
        let block = self.program.block(id);
        let mut frame = self.state.take_frame(id, self.prepared.memories(id));
        for (&parameter, (memory, offset)) in block.parameters.iter().zip(given) {
            if let Some(index) = self.prepared.memory_of(id, parameter) {
                frame.set(index, memory, offset);
            }
        }
        let last = self.segments(id, first, &mut frame, Entry::default());
        let results = last.and_then(|last| {
            let plan = last.as_deref().unwrap_or(first);
            let values = plan.results.iter().map(|place| self.value(&frame, place));
            Ok(values.collect::<Result<Vec<_>, _>>()?)
        });
        self.state.give_frame(id, frame);
        results
    }

    /// Runs the segments of a block whose first one is planned. Returns the plan of the last one, if it is not the first:
    /// it has the places of the results.
    pub(super) fn segments(
        &mut self,
        id: BlockId,
        first: &Arc<SegmentPlan>,
        frame: &mut Frame,
        entry: Entry,
    ) -> Result<Option<Arc<SegmentPlan>>, Stop> {
        let n_segments = self.program.block(id).segments.len();
        let mut binding: Option<Binding> = None;
        self.segment((id, 0), first, frame, &mut binding, entry)?;
        if n_segments <= 1 {
            return Ok(None);
        }
        let mut plans: SmallVec<[Arc<SegmentPlan>; 4]> = SmallVec::new();
        plans.push(Arc::clone(first));
        for segment in 1..n_segments {
            let before = plans.last().unwrap_or(first);
            let known = match binding.take() {
                Some(binding) => binding,
                None => before.binding.clone(),
            };
            let plan = self.plan(id, segment, known, &plans)?;
            self.segment((id, segment), &plan, frame, &mut binding, entry)?;
            plans.push(plan);
        }
        Ok(plans.pop())
    }

    fn segment(
        &mut self,
        (block, segment): (BlockId, usize),
        plan: &SegmentPlan,
        frame: &mut Frame,
        binding: &mut Option<Binding>,
        entry: Entry,
    ) -> Result<(), Stop> {
        let executor = self.runtime.executor();
        self.have_arena(block, segment, plan, frame)?;
        if !entry.has_results {
            self.have_own_memories(block, plan, frame)?;
        }
        let steps = &self.program.block(block).segments[segment].steps;
        self.state.began = true;
        let is_timed = self.prepared.recorder.timing.is_at(Verbosity::Verbose);
        let heat = plan.heat.as_ref().filter(|heat| heat.begin());
        let is_observed = is_timed || heat.is_some() || self.profile.is_some();
        let takes_batches = !is_observed && executor.takes_batches();
        let mut batched = 0;
        for (position, (step, planned)) in steps.iter().zip(&plan.steps).enumerate() {
            if position < batched {
                continue;
            }
            self.check_control()?;
            if takes_batches {
                let batch = position..plan.batch_end(position);
                if batch.len() > 1 {
                    self.launch_batch(block, segment, plan, batch.clone(), frame)?;
                    batched = batch.end;
                    continue;
                }
            }
            let prepared = self.prepared;
            let _span = is_timed.then(|| prepared.time_step(block, segment, position));
            let heat = heat.filter(|heat| heat.watches(position));
            let is_watched = self.profile.is_some() || heat.is_some();
            let begin = is_watched.then(|| self.runtime.clock().now());
            match planned {
                StepPlan::Kernel(kernel) => {
                    let turn = kernel.rival.as_deref().map(Rival::turn);
                    self.note_launch(block, segment, position, kernel.code(turn));
                    match (turn, kernel.rival.as_deref()) {
                        (Some(turn), Some(rival)) => {
                            self.take_turn(step, kernel, rival, turn, frame)?
                        }
                        _ => self.launch(step, kernel, None, frame)?,
                    }
                }
                StepPlan::Builtin(builtin) => self.builtin(step, builtin, frame)?,
                StepPlan::Dims(values, index) => {
                    let tensor = Tensor::from_slice(&[values.len()], values)
                        .map_err(RuntimeError::tensor("sizes as data"))?;
                    let memory = executor
                        .upload(&tensor)
                        .map_err(RuntimeError::execute("sizes as data"))?;
                    frame.set(*index, memory, 0);
                }
                StepPlan::Host(reads) => {
                    let known = binding.get_or_insert_with(|| plan.binding.clone());
                    self.host(block, step, reads, frame, known)?;
                }
                StepPlan::Loop { reads, trips } => {
                    let known = binding.get_or_insert_with(|| plan.binding.clone());
                    self.run_loop(block, step, (reads, *trips), frame, known)?;
                }
                StepPlan::Interpreted {
                    reads,
                    writes,
                    until,
                } => {
                    match *until {
                        Until::Code => {
                            Counters::count(&self.runtime.counters().fallbacks);
                            self.prepared.recorder.count(Counter::Fallback);
                        }
                        // The next call remakes the plan.
                        Until::Retry(at) if self.runtime.clock().now() >= at => plan.stale.raise(),
                        Until::Retry(_) | Until::Ever => {}
                    }
                    let known = binding.as_ref().unwrap_or(&plan.binding);
                    self.interpret_kernel(step, reads, writes, frame, known)?;
                }
            }
            // A timer stops when the device's work is done, not when it was submitted.
            if is_timed && executor.has_own_memory() {
                self.finish()?;
            }
            if let Some(begin) = begin {
                if let Some(heat) = heat {
                    self.finish()?;
                    heat.add(position, self.runtime.clock().now().saturating_sub(begin));
                }
                if self.profile.is_some() {
                    self.record(step, planned, begin)?;
                }
            }
        }
        if let Some(heat) = heat {
            self.ask_for_variants(steps, plan, heat);
        }
        // This comes before the results of a launch that ended early are used.
        self.check_control()?;
        match entry.runs_behind {
            true => Ok(()),
            false => self.finish(),
        }
    }

    /// Gets the arena of a segment: the kept one, if sizes did not grow.
    fn have_arena(
        &mut self,
        block: BlockId,
        segment: usize,
        plan: &SegmentPlan,
        frame: &mut Frame,
    ) -> Result<(), Box<RuntimeError>> {
        let runtime = self.runtime;
        if plan.arena > 0 || !self.program.block(block).segments[segment].slots.is_empty() {
            let index =
                u32::try_from(segment).map_err(|_| RuntimeError::malformed("too many segments"))?;
            let alloc = |before| runtime.alloc_arena(plan.arena, before);
            let arena = frame.keep_at_least(MemoryIndex(index), plan.arena, alloc);
            arena.map_err(RuntimeError::execute("the arena"))?;
        }
        Ok(())
    }

    /// Gets the memories of a segment that are neither parts of an arena nor passed by the caller.
    fn have_own_memories(
        &mut self,
        block: BlockId,
        plan: &SegmentPlan,
        frame: &mut Frame,
    ) -> Result<(), Box<RuntimeError>> {
        let runtime = self.runtime;
        let is_given = self.into.is_some() && block == self.program.body();
        // The memory of a result that stays on the device is not reused by another call.
        let stays = is_given && !self.keeps_states();
        for own in &plan.own {
            if is_given && self.is_taken(own.index) {
                continue;
            }
            if stays && self.lend(own, &plan.results, frame)? {
                continue;
            }
            let OwnMemory { index, bytes, .. } = *own;
            let had = if stays {
                frame.keep_at_least(index, bytes, |_| runtime.alloc(bytes))
            } else {
                let memory = runtime.alloc(bytes);
                memory.map(|memory| frame.set(index, memory, 0))
            };
            had.map_err(RuntimeError::execute("a result"))?;
        }
        Ok(())
    }

    /// An error once the call is to end.
    pub(super) fn check_control(&self) -> Result<(), Box<RuntimeError>> {
        match self.control {
            Some(control) => Ok(control.check()?),
            None => Ok(()),
        }
    }

    /// The result of a copy, unless the call is to end.
    pub(super) fn copied(
        &self,
        what: &str,
        copy: impl FnOnce(&mut dyn FnMut(usize) -> bool) -> Result<Tensor, TensorError>,
    ) -> Result<Tensor, RuntimeError> {
        let goes_on = &mut |_| self.control.is_none_or(|control| !control.is_stopped());
        let copied = copy(goes_on).map_err(RuntimeError::tensor(what))?;
        self.control.map_or(Ok(()), CallControl::check)?;
        Ok(copied)
    }

    fn builtin(&mut self, step: &Step, plan: &BuiltinPlan, frame: &Frame) -> Result<(), Stop> {
        fn operands<'a>(
            frame: &'a Frame,
            places: &'a [TensorPlace],
        ) -> Result<Operands<'a>, Box<RuntimeError>> {
            let operand = |place: &'a TensorPlace| {
                let what = BuiltinOperand {
                    dtype: place.dtype,
                    shape: &place.shape,
                };
                Ok((frame.slice(&place.operand)?, what))
            };
            places.iter().map(operand).collect()
        }
        let inputs = operands(frame, &plan.inputs)?;
        let outputs = operands(frame, &plan.outputs)?;
        if plan.builtin == Builtin::Copy && are_same(&inputs, &outputs) {
            return Ok(());
        }
        Ok(self.run_builtin(&step.name, &plan.builtin, &inputs, &outputs)?)
    }

    /// Waits for everything launched, and reports the first fault.
    pub(crate) fn finish(&mut self) -> Result<(), Stop> {
        let fault = self
            .state
            .execution
            .finish()
            .map_err(RuntimeError::execute("the device"))?;
        let error = fault.map(|fault| self.fault(fault));
        self.state.forget_launches();
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Attributes a fault to an op: the first of the step that can have caused it.
    fn fault(&self, fault: Fault) -> RuntimeError {
        let mut launched = self.state.launched.iter();
        let Some(launched) = launched.find(|launched| launched.number == fault.launch) else {
            return RuntimeError::malformed("a fault of a launch that cannot fault");
        };
        let graph = self.program.graph();
        let step =
            &self.program.block(launched.block).segments[launched.segment].steps[launched.step];
        let problem = problem_of(fault.cause);
        let may_cause = |op: &&kiln_ir::OpId| {
            use kiln_ir::Op;
            match (&graph.op(**op).op, fault.cause) {
                (Op::Map { function, .. }, FaultCause::DivisionByZero) => {
                    let divides = [ScalarOp::Div, ScalarOp::FloorDiv, ScalarOp::FloorMod];
                    divides.iter().any(|op| op.name() == function.name())
                        || function.name() == "pow"
                }
                (
                    Op::Gather { .. }
                    | Op::GatherElements { .. }
                    | Op::GatherNd { .. }
                    | Op::ScatterElements { .. }
                    | Op::ScatterNd { .. }
                    | Op::UpdateSlice { .. }
                    | Op::Slice { .. },
                    FaultCause::IndexOutOfRange,
                ) => true,
                _ => false,
            }
        };
        let inside = step.ops.iter().flat_map(|&op| &graph.op(op).regions);
        let inside = inside.flat_map(|&region| &graph.region(region).ops);
        let op = step.ops.iter().chain(inside).find(may_cause);
        let op = op.or(step.ops.last());
        let at = match op {
            Some(&op) => site_of(graph, op),
            None => kiln_interpreter::OpSite {
                op: "kernel",
                origin: step.name.clone(),
            },
        };
        let sites = &launched.compiled.artifact.fault_sites;
        let site = sites.get(fault.site).cloned();
        let site = site.unwrap_or_else(|| format!("site {} of kernel @{}", fault.site, step.name));
        RuntimeError::Fault {
            at,
            problem,
            cause: fault.cause,
            site,
        }
    }
}
