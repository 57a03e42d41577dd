//! A program ready to run: its main plan, and other plans for sizes for which facts do not hold.

use std::sync::Arc;

use kiln_backend::StopSignal;
use kiln_interpreter::{InterpretError, InterpretOptions, bind_symbols, interpret};
use kiln_program::Program;
use kiln_symbolic_shape::{Binding, EvaluateError, FactSelection, PlanFact};
use kiln_tensor::Tensor;
use kiln_timing::{Category, Counter, EventId, Timing};

use crate::call::{CallControl, CallOptions};
use crate::calls::Calls;
use crate::compile::{Counters, Patience};
use crate::donate::Donations;
use crate::error::RuntimeError;
use crate::options::OutputPlacement;
use crate::plan::{Key, Prepared};
use crate::planner::Planner;
use crate::plans::{FactNames, Making, OtherPlans, Plan, Served};
use crate::recorder::Recorder;
use crate::run::{Call, Inputs, Stop, Why, run_program};
use crate::runtime::Runtime;
use crate::step_profile::StepProfile;

/// A program and the runtime that runs it. Kernels are compiled when a call first needs them.
///
/// [`run`](Self::run) takes `&self`: any number of threads may call at once, each with separate memory.
#[derive(Debug)]
pub struct CompiledProgram {
    runtime: Arc<Runtime>,
    main: Arc<Plan>,
    others: OtherPlans,
    calls: Calls,
    /// The event of a call.
    run: EventId,
    /// Whether outputs stay in the memory of the device.
    outputs_stay: bool,
}

impl Drop for CompiledProgram {
    fn drop(&mut self) {
        // Its constants may be shared; those that are no longer used are freed.
        self.clear();
        self.runtime.constants().sweep();
    }
}

impl CompiledProgram {
    /// The program made by a planner.
    ///
    /// # Errors
    /// Why there is no plan.
    pub fn new(runtime: Arc<Runtime>, planner: Arc<dyn Planner>) -> Result<Self, RuntimeError> {
        let program = planner
            .plan(&FactSelection::All)
            .map_err(|error| RuntimeError::Plan(error.into()))?;
        Ok(Self::of_plan(runtime, program, Some(planner)))
    }

    /// One program, without a planner: sizes that contradict its facts are rejected, unless another plan that serves
    /// them is [added](Self::with_other_plan).
    pub fn of_program(runtime: Arc<Runtime>, program: Program) -> Self {
        Self::of_plan(runtime, program, None)
    }

    /// With a plan that was made before with these facts of the same graph, for sizes for which others fail. To be called
    /// after [`with_timing`](Self::with_timing).
    #[must_use]
    pub fn with_other_plan(self, facts: FactSelection, program: Program) -> Self {
        self.others
            .add(&self.runtime, self.recorder(), facts, program);
        self
    }

    fn of_plan(runtime: Arc<Runtime>, program: Program, planner: Option<Arc<dyn Planner>>) -> Self {
        let launch_plans = runtime.options().launch_plans;
        let recorder = runtime.recorder().clone();
        let run = run_event(&recorder, &program);
        let prepared = Prepared::new(program, launch_plans, recorder);
        Self {
            run,
            outputs_stay: runtime.executor().has_own_memory(),
            main: Arc::new(Plan::new(&runtime, prepared)),
            others: OtherPlans::new(&runtime, planner),
            calls: Calls::new(runtime.options().policy),
            runtime,
        }
    }

    /// With its own recorder. To be called before the first call.
    #[must_use]
    pub fn with_timing(mut self, timing: Timing) -> Self {
        let recorder = Recorder::of(timing);
        self.run = run_event(&recorder, self.program());
        if let Some(main) = Arc::get_mut(&mut self.main) {
            main.prepared.recorder = recorder;
        }
        self
    }

    /// With this placement of outputs: see [`OutputPlacement`]. It applies to the outputs of calls that return new tensors;
    /// those of [`run_into`](Self::run_into) are the host's.
    #[must_use]
    pub fn with_outputs(mut self, outputs: OutputPlacement) -> Self {
        self.outputs_stay =
            outputs == OutputPlacement::Device && self.runtime.executor().has_own_memory();
        self
    }

    /// Its recorder.
    pub fn timing(&self) -> &Timing {
        &self.recorder().timing
    }

    fn recorder(&self) -> &Recorder {
        &self.main.prepared.recorder
    }

    pub(crate) fn prepared(&self) -> &Prepared {
        &self.main.prepared
    }

    /// The main plan.
    pub fn program(&self) -> &Program {
        &self.main.prepared.program
    }

    /// The runtime.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The number of plans: the main one, and others made on demand.
    pub fn n_plans(&self) -> usize {
        1 + self.others.made().len()
    }

    /// The plans made because facts do not hold, each with the facts that it may depend on.
    pub fn other_plans(&self) -> Vec<(FactSelection, Program)> {
        let others = self.others.made().into_iter();
        let with_facts = others.filter_map(|other| {
            let plan = other.plan()?;
            Some((other.facts().clone(), plan.prepared.program.clone()))
        });
        with_facts.collect()
    }

    /// The main plan and all others that have been made.
    pub(crate) fn plans(&self) -> Vec<Arc<Plan>> {
        let others = self.others.made().into_iter();
        let others = others.filter_map(|other| other.plan().cloned());
        std::iter::once(Arc::clone(&self.main))
            .chain(others)
            .collect()
    }

    /// The number of launch plans that are kept, of all plans and segments.
    pub fn n_launch_plans(&self) -> usize {
        let plans = self.plans();
        plans.iter().map(|plan| plan.prepared.n_plans()).sum()
    }

    /// The outputs for these inputs, in the graph's order.
    ///
    /// # Errors
    /// Inputs that do not fit the graph, a fault of an op, a kernel that does not compile, an allocation that fails.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, RuntimeError> {
        self.serve_anew(inputs, None, None)
    }

    /// As [`run`](Self::run), for a call that may be cancelled. A cancelled call leaves nothing behind: the next is
    /// unaffected.
    ///
    /// # Errors
    /// As [`run`](Self::run); `E0835` when it was cancelled, `E0894` when it took too long.
    pub fn run_with(
        &self,
        inputs: &[Tensor],
        options: &CallOptions,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        self.run_controlled(inputs, self.control(options).as_ref())
    }

    /// As [`run_with`](Self::run_with), for a call that began earlier, under this control.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with).
    pub fn run_controlled(
        &self,
        inputs: &[Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        self.serve_anew(inputs, None, control)
    }

    /// As [`run`](Self::run), into given tensors, one per output: in place if the tensor has the output's dtype and shape
    /// and its memory is not shared; kernels then compute directly into it where possible. A call with known sizes then
    /// allocates nothing, if the device does not and every step is a kernel.
    ///
    /// # Errors
    /// As [`run`](Self::run), and the contents of the tensors are then undefined; a number of tensors that differs from
    /// the number of outputs.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<(), RuntimeError> {
        self.run_into_controlled(inputs, outputs, None)
    }

    /// As [`run_into`](Self::run_into), for a call that may be cancelled; the tensors are unchanged if it is. Once
    /// everything is computed and only copies into the tensors remain, the call is no longer cancelled.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into) and [`run_with`](Self::run_with).
    pub fn run_into_with(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        options: &CallOptions,
    ) -> Result<(), RuntimeError> {
        self.run_into_controlled(inputs, outputs, self.control(options).as_ref())
    }

    /// As [`run_into_with`](Self::run_into_with), for a call that began earlier, under this control.
    ///
    /// # Errors
    /// As [`run_into_with`](Self::run_into_with).
    pub fn run_into_controlled(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<(), RuntimeError> {
        self.check_output_count(outputs)?;
        let (inputs, made) = (Inputs::Read(inputs), &mut Vec::new());
        Ok(self.serve(inputs, None, Some(outputs), control, made)?)
    }

    fn check_output_count(&self, outputs: &[Tensor]) -> Result<(), RuntimeError> {
        let (expected, found) = (self.program().graph().outputs().len(), outputs.len());
        match expected == found {
            true => Ok(()),
            false => Err(RuntimeError::OutputCount { expected, found }),
        }
    }

    /// As [`run_into_controlled`](Self::run_into_controlled), donating some of the inputs: results may be computed in
    /// their memory, which a call with known sizes then neither allocates nor copies. A donated input whose memory was
    /// taken is no longer usable, and reading it is an error; [`donations`](Donations::fate) reports the fate of each.
    /// No memory is taken in a call that may be cancelled.
    ///
    /// # Errors
    /// As [`run_into_controlled`](Self::run_into_controlled); `E0898` for a pair with an input or an output that does not
    /// exist. Inputs are then unchanged, except those that are [spoiled](crate::DonationFate::Spoiled).
    pub fn run_donating(
        &self,
        inputs: &mut [Tensor],
        donations: &mut Donations,
        outputs: &mut [Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<(), RuntimeError> {
        self.check_output_count(outputs)?;
        donations.begin(inputs.len(), outputs.len())?;
        let made = &mut Vec::new();
        let inputs = Inputs::Donated(inputs, donations);
        Ok(self.serve(inputs, None, Some(outputs), control, made)?)
    }

    /// As [`run`](Self::run), with the cost of each step.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_profiled(
        &self,
        inputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<StepProfile>), RuntimeError> {
        self.run_profiled_controlled(inputs, None)
    }

    /// As [`run_profiled`](Self::run_profiled), under a control.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with).
    pub fn run_profiled_controlled(
        &self,
        inputs: &[Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<(Vec<Tensor>, Vec<StepProfile>), RuntimeError> {
        let mut profile = Vec::new();
        let outputs = self.serve_anew(inputs, Some(&mut profile), control)?;
        Ok((outputs, profile))
    }

    /// Clears launch plans and memory that no run uses. Kernels stay with the runtime.
    pub fn clear(&self) {
        for plan in self.plans() {
            plan.prepared.clear_plans();
            plan.states.clear();
        }
    }

    fn control(&self, options: &CallOptions) -> Option<Arc<CallControl>> {
        options.control(self.runtime.shared_clock()).map(Arc::new)
    }

    /// Serves a call with new tensors.
    fn serve_anew(
        &self,
        inputs: &[Tensor],
        profile: Option<&mut Vec<StepProfile>>,
        control: Option<&Arc<CallControl>>,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let mut made = Vec::new();
        self.serve(Inputs::Read(inputs), profile, None, control, &mut made)?;
        Ok(made)
    }

    /// Serves a call: into the given tensors, or otherwise into new ones, put into `made`.
    fn serve(
        &self,
        inputs: Inputs<'_>,
        profile: Option<&mut Vec<StepProfile>>,
        into: Option<&mut [Tensor]>,
        control: Option<&Arc<CallControl>>,
        made: &mut Vec<Tensor>,
    ) -> Result<(), Box<RuntimeError>> {
        let served = self.serve_with_some_plan(inputs, profile, into, control, made);
        if let Err(error) = &served {
            self.count_early_end(error);
        }
        served
    }

    fn count_early_end(&self, error: &RuntimeError) {
        let counters = self.runtime.counters();
        match error {
            RuntimeError::Interpret(InterpretError::Cancelled) => {
                Counters::count(&counters.cancelled);
            }
            RuntimeError::CallTimeout { .. } => {
                Counters::count(&counters.timeouts);
                self.recorder().count(Counter::Timeout);
            }
            _ => {}
        }
    }

    fn serve_with_some_plan(
        &self,
        mut inputs: Inputs<'_>,
        mut profile: Option<&mut Vec<StepProfile>>,
        mut into: Option<&mut [Tensor]>,
        control: Option<&Arc<CallControl>>,
        made: &mut Vec<Tensor>,
    ) -> Result<(), Box<RuntimeError>> {
        let _span = self.calls.time(self.timing(), self.run);
        let number = self.calls.count();
        // `None` is the main plan, which is not counted here: all threads would count there.
        let mut other: Option<Arc<Plan>> = None;
        let mut failed = FactNames::new();
        let mut key: Option<Key> = None;
        let mut is_for_good = true;
        let mut is_general = false;
        let mut patience: Option<Patience<'_>> = None;
        if self.others.any() {
            let sizes = sizes_of(&inputs);
            other = self.others.chosen(&sizes);
            key = Some(sizes);
        }
        loop {
            if let Some(profile) = profile.as_deref_mut() {
                profile.clear();
            }
            let Plan { prepared, states } = other.as_deref().unwrap_or(&self.main);
            let call = Call {
                inputs: inputs.reborrow(),
                number,
                control,
                outputs_stay: self.outputs_stay,
            };
            let facts = match run_program(
                &self.runtime,
                prepared,
                states,
                call,
                profile.as_deref_mut(),
                into.as_deref_mut(),
                made,
            ) {
                Ok(()) => {
                    if !failed.is_empty() && is_for_good {
                        let key = key.take().unwrap_or_else(|| sizes_of(&inputs));
                        let plan = other.unwrap_or_else(|| Arc::clone(&self.main));
                        self.others.choose(key, plan);
                    }
                    return Ok(());
                }
                Err(Stop(why)) => match *why {
                    Why::Error(error) => return Err(error.into()),
                    Why::Facts(facts) => facts,
                },
            };
            let dims = prepared.program.graph().dims();
            let newly: FactNames = facts.iter().map(|fact| fact.name(dims)).collect();
            let refuse = |reason| no_other_plan(&newly, &facts, reason);
            let before = failed.len();
            if failed.is_empty() {
                failed = self.facts_that_fail(&inputs);
            }
            failed.extend(newly.iter().cloned());
            let patience = patience
                .get_or_insert_with(|| self.runtime.patience(number, control.map(|c| &**c)));
            let making = self.making(patience);
            let served = if failed.len() > before {
                self.others.serve(&failed, making, &refuse)?
            } else if is_general {
                return Err(refuse("it was made without this fact".to_owned()).into());
            } else {
                // A planner that does not know a fact by its name.
                is_general = true;
                self.others.general(making, &refuse)?
            };
            other = match served {
                Served::By(plan) => Some(plan),
                Served::Meanwhile(plan) => {
                    is_for_good = false;
                    Some(plan)
                }
                Served::Later => {
                    return self.interpret(&inputs, into.as_deref_mut(), control, made);
                }
            };
        }
    }

    /// The plan facts of the graph that are false at these sizes, as far as the inputs determine them.
    fn facts_that_fail(&self, inputs: &[Tensor]) -> FactNames {
        let graph = self.program().graph();
        let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
        match bind_symbols(graph, &shapes) {
            Ok(binding) => failing(self.program(), &binding),
            // The reason for which the call fails.
            Err(_) => FactNames::new(),
        }
    }

    /// Interprets the graph: no plan serves the call yet, and it must not wait for one.
    fn interpret(
        &self,
        inputs: &[Tensor],
        into: Option<&mut [Tensor]>,
        control: Option<&Arc<CallControl>>,
        made: &mut Vec<Tensor>,
    ) -> Result<(), Box<RuntimeError>> {
        let (program, options) = (self.program(), self.runtime.options());
        for _ in program.steps() {
            Counters::count(&self.runtime.counters().interpreted_steps);
            Counters::count(&self.runtime.counters().fallbacks);
            self.recorder().count(Counter::InterpretedSteps);
        }
        let is_stopped = || control.is_some_and(|control| control.is_stopped());
        let interpreted = interpret(
            program.graph(),
            inputs,
            &InterpretOptions {
                limits: options.interpret_limits(),
                cancelled: Some(&is_stopped),
                custom_ops: Some(&options.custom_ops),
                ..InterpretOptions::default()
            },
        );
        let outputs = interpreted.map_err(|error| {
            // The interpreter reports that the call was ended, and the control reports why.
            let ended = control.and_then(|control| control.check().err());
            Box::new(ended.unwrap_or_else(|| error.into()))
        })?;
        match into {
            Some(given) => given
                .iter_mut()
                .zip(outputs)
                .for_each(|(given, output)| *given = output),
            None => *made = outputs,
        }
        Ok(())
    }

    /// The plan that serves inputs of these sizes, as far as sizes determine it, made if it does not exist; `None` for the
    /// main plan.
    pub(crate) fn plan_for(
        &self,
        binding: &Binding,
        patience: &Patience<'_>,
    ) -> Result<Option<Arc<Plan>>, RuntimeError> {
        let failed = failing(self.program(), binding);
        let of_main = self.program().facts();
        let mut names = of_main.map(|fact| fact.name(self.program().graph().dims()));
        if !names.any(|name| failed.contains(&name)) {
            return Ok(None);
        }
        let refuse = |reason| no_other_plan(&failed, &[], reason);
        match self.others.serve(&failed, self.making(patience), &refuse)? {
            Served::By(plan) | Served::Meanwhile(plan) => Ok(Some(plan)),
            Served::Later => Ok(None),
        }
    }

    /// Makes the general plan, if it does not exist and the main plan depends on facts. A program without a planner
    /// continues with the plans that it has.
    ///
    /// # Errors
    /// Why there is no such plan.
    pub fn make_general_plan(&self) -> Result<(), RuntimeError> {
        let facts = self.program().facts().next();
        let Some(fact) = facts.filter(|_| self.others.has_planner()) else {
            return Ok(());
        };
        let names = FactNames::from([fact.name(self.program().graph().dims())]);
        let refuse = |reason| no_other_plan(&names, std::slice::from_ref(fact), reason);
        let made = self
            .others
            .general(self.making(&Patience::ENDLESS), &refuse);
        made.map(drop)
    }

    fn making<'a>(&'a self, patience: &'a Patience<'a>) -> Making<'a> {
        Making {
            runtime: &self.runtime,
            recorder: self.recorder(),
            patience,
        }
    }
}

/// The names of a graph's plan facts that are false, or have no value, where their symbols are bound.
fn failing(program: &Program, binding: &Binding) -> FactNames {
    let dims = program.graph().dims();
    let is_false = |fact: &&PlanFact| {
        let value = |dim| match dims.evaluate(dim, binding) {
            Ok(value) => Ok(Some(value)),
            Err(EvaluateError::Unbound { .. }) => Err(()),
            Err(_) => Ok(None),
        };
        match (value(fact.left), value(fact.right)) {
            (Ok(Some(left)), Ok(Some(right))) => left != right,
            (Ok(_), Ok(_)) => true,
            _ => false,
        }
    };
    let facts = dims.plan_facts().iter().filter(is_false);
    facts.map(|fact| fact.name(dims)).collect()
}

fn no_other_plan(names: &FactNames, facts: &[PlanFact], reason: String) -> RuntimeError {
    let expected = names.iter().next().cloned().unwrap_or_default();
    let origin = facts.first();
    RuntimeError::NoOtherPlan {
        expected,
        origin: origin.map_or_else(String::new, |fact| fact.origin.clone()),
        reason,
    }
}

/// The event of a program's calls.
fn run_event(recorder: &Recorder, program: &Program) -> EventId {
    let name = program.graph().name();
    recorder
        .timing
        .named(Category::Runtime, "run_", name, "Calls of ")
}

/// The sizes of inputs as a row, with their ranks: the key that selects the plan.
fn sizes_of(inputs: &[Tensor]) -> Key {
    let mut key = Key::new();
    for tensor in inputs {
        key.push(tensor.rank() as i64);
        key.extend(tensor.shape().iter().map(|&size| size as i64));
    }
    key
}
