//! A program that runs: its main plan, and other plans for sizes on which facts do not hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_interpreter::InterpretError;
use kiln_program::Program;
use kiln_symbolic_shape::{DimId, PlanFact};
use kiln_tensor::Tensor;
use kiln_timing::{Category, Counter, EventId, Timing};

use crate::call::{CallControl, CallOptions};
use crate::calls::Calls;
use crate::compile::Counters;
use crate::error::RuntimeError;
use crate::plan::{Key, Memo, Prepared};
use crate::planner::Planner;
use crate::profile::StepProfile;
use crate::recorder::Recorder;
use crate::run::{Call, States, Stop, Why, run_program};
use crate::runtime::Runtime;

/// A program and the runtime that runs it. Kernels are compiled when a call first needs them.
///
/// [`run`](Self::run) takes `&self`: any number of threads may call at once, each with memory of its own.
#[derive(Debug)]
pub struct CompiledProgram {
    runtime: Arc<Runtime>,
    planner: Option<PlannerHandle>,
    main: Arc<Plan>,
    /// Plans made because facts do not hold, by those facts.
    others: ForkLock<OtherPlans>,
    has_others: AtomicBool,
    /// Which other plan serves which sizes of inputs.
    choice: Memo<Arc<Plan>>,
    calls: Calls,
    /// The event of a call.
    run: EventId,
}

/// Plans, each with the sorted facts that it does without. One that is being made is not there yet.
type OtherPlans = Vec<(Vec<(DimId, DimId)>, Arc<ForkCell<Arc<Plan>>>)>;

#[derive(Clone)]
struct PlannerHandle(Arc<dyn Planner>);

impl std::fmt::Debug for PlannerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planner")
    }
}

/// A plan with the states of its runs.
#[derive(Debug)]
struct Plan {
    prepared: Prepared,
    states: Arc<States>,
}

impl Plan {
    fn new(runtime: &Runtime, prepared: Prepared) -> Self {
        let states = Arc::default();
        runtime.hold(&states);
        Self { prepared, states }
    }
}

impl Drop for CompiledProgram {
    fn drop(&mut self) {
        // Its constants are others' too; those that nobody has now are given up.
        self.clear();
        self.runtime.constants().sweep();
    }
}

impl CompiledProgram {
    /// The program that a planner makes.
    ///
    /// # Errors
    /// Why there is no plan.
    pub fn new(runtime: Arc<Runtime>, planner: Arc<dyn Planner>) -> Result<Self, RuntimeError> {
        let program = planner
            .plan(&[])
            .map_err(|error| RuntimeError::Plan(error.into()))?;
        let mut this = Self::of_program(runtime, program);
        this.planner = Some(PlannerHandle(planner));
        Ok(this)
    }

    /// One program, without a planner: sizes that contradict its facts are refused.
    pub fn of_program(runtime: Arc<Runtime>, program: Program) -> Self {
        let launch_plans = runtime.options().launch_plans;
        let recorder = runtime.recorder().clone();
        let run = run_event(&recorder, &program);
        let prepared = Prepared::new(program, launch_plans, recorder);
        Self {
            run,
            main: Arc::new(Plan::new(&runtime, prepared)),
            planner: None,
            others: ForkLock::default(),
            has_others: AtomicBool::new(false),
            choice: Memo::new(launch_plans),
            calls: Calls::new(runtime.options().policy),
            runtime,
        }
    }

    /// With a recorder of its own for what is done for it. To be said before the first call.
    #[must_use]
    pub fn with_timing(mut self, timing: Timing) -> Self {
        let recorder = Recorder::of(timing);
        self.run = run_event(&recorder, self.program());
        if let Some(main) = Arc::get_mut(&mut self.main) {
            main.prepared.recorder = recorder;
        }
        self
    }

    /// The recorder of what is done for it.
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

    /// How many plans there are: the main one, and others made on demand.
    pub fn n_plans(&self) -> usize {
        1 + self.other_plans().len()
    }

    /// How many launch plans are kept, of all plans and segments.
    pub fn n_launch_plans(&self) -> usize {
        let others = self.other_plans();
        let others: usize = others.iter().map(|plan| plan.prepared.n_plans()).sum();
        self.main.prepared.n_plans() + others
    }

    /// The outputs for these inputs, in the graph's order.
    ///
    /// # Errors
    /// Inputs that do not fit the graph, a fault of an op, a kernel that does not compile, memory that is short.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, RuntimeError> {
        self.serve_anew(inputs, None, None)
    }

    /// As [`run`](Self::run), for a call that may be ended early. One that was leaves nothing behind: the next has all that
    /// it would have had.
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

    /// As [`run_with`](Self::run_with), for a call that began before: this may end it.
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

    /// As [`run`](Self::run), into tensors that are given, one per output: in place where one has the output's dtype and
    /// shape and is nobody else's; kernels then compute right there where nothing speaks against it. A call with sizes that
    /// came before then allocates nothing, where the device does not and every step is a kernel.
    ///
    /// # Errors
    /// As [`run`](Self::run), and what the tensors hold is then not defined; another number of tensors than of outputs.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<(), RuntimeError> {
        self.run_into_controlled(inputs, outputs, None)
    }

    /// As [`run_into`](Self::run_into), for a call that may be ended early; the tensors are then as they were. Once all is
    /// computed, and only to be copied into the tensors, the call is not ended any more.
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

    /// As [`run_into_with`](Self::run_into_with), for a call that began before: this may end it.
    ///
    /// # Errors
    /// As [`run_into_with`](Self::run_into_with).
    pub fn run_into_controlled(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<(), RuntimeError> {
        let (expected, found) = (self.program().graph().outputs().len(), outputs.len());
        if expected != found {
            return Err(RuntimeError::OutputCount { expected, found });
        }
        let made = &mut Vec::new();
        Ok(self.serve(inputs, None, Some(outputs), control, made)?)
    }

    /// As [`run`](Self::run), with what each step cost.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_profiled(
        &self,
        inputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<StepProfile>), RuntimeError> {
        self.run_profiled_controlled(inputs, None)
    }

    /// As [`run_profiled`](Self::run_profiled), for a call that this may end.
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

    /// Makes the launch plan for inputs of these sizes, and compiles what it needs, by running once.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn warm_up(&self, inputs: &[Tensor]) -> Result<(), RuntimeError> {
        self.run(inputs).map(drop)
    }

    /// Forgets launch plans and memory that no run uses. Kernels stay with the runtime.
    pub fn clear(&self) {
        for plan in self.other_plans().iter().chain([&self.main]) {
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
        self.serve(inputs, profile, None, control, &mut made)?;
        Ok(made)
    }

    /// Serves a call: into the tensors that are given, or else into new ones, put into `made`.
    fn serve(
        &self,
        inputs: &[Tensor],
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
        inputs: &[Tensor],
        mut profile: Option<&mut Vec<StepProfile>>,
        mut into: Option<&mut [Tensor]>,
        control: Option<&Arc<CallControl>>,
        made: &mut Vec<Tensor>,
    ) -> Result<(), Box<RuntimeError>> {
        let _span = self.calls.time(self.timing(), self.run);
        let call = Call {
            inputs,
            number: self.calls.count(),
            control,
        };
        // None is the main plan, which is not counted here: all threads would count there.
        let mut other: Option<Arc<Plan>> = None;
        let mut failed: Vec<PlanFact> = Vec::new();
        let mut key: Option<Key> = None;
        if self.has_others.load(Ordering::Acquire) {
            let sizes = sizes_of(inputs);
            if let Some(chosen) = self.choice.get(&sizes) {
                other = Some(Arc::clone(&chosen));
            }
            key = Some(sizes);
        }
        loop {
            if let Some(profile) = profile.as_deref_mut() {
                profile.clear();
            }
            let Plan { prepared, states } = other.as_deref().unwrap_or(&self.main);
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
                    if !failed.is_empty() {
                        let key = key.take().unwrap_or_else(|| sizes_of(inputs));
                        self.choice
                            .insert(key, other.unwrap_or_else(|| Arc::clone(&self.main)));
                    }
                    return Ok(());
                }
                Err(Stop(why)) => match *why {
                    Why::Error(error) => return Err(error.into()),
                    Why::Facts(facts) => facts,
                },
            };
            let before = failed.len();
            for fact in &facts {
                if !failed.iter().any(|known| same(known, fact)) {
                    failed.push(fact.clone());
                }
            }
            if failed.len() == before {
                let problem = "it was made without this fact".to_owned();
                return Err(self.no_other_plan(&facts, problem).into());
            }
            other = Some(self.other_plan(&failed, &facts, control)?);
        }
    }

    /// The plan without these facts: one that is there, or a new one, counted. A call that is to end does not wait for it.
    fn other_plan(
        &self,
        failed: &[PlanFact],
        newly: &[PlanFact],
        control: Option<&Arc<CallControl>>,
    ) -> Result<Arc<Plan>, RuntimeError> {
        let mut name: Vec<(DimId, DimId)> =
            failed.iter().map(|fact| (fact.left, fact.right)).collect();
        name.sort_unstable();
        let Some(planner) = self.planner.clone() else {
            return Err(self.no_other_plan(newly, "the program came without a planner".to_owned()));
        };
        let place = {
            let mut others = self.others.lock();
            match others.iter().find(|(known, _)| *known == name) {
                Some((_, place)) => Arc::clone(place),
                None => {
                    let place = Arc::default();
                    others.push((name, Arc::clone(&place)));
                    place
                }
            }
        };
        let (runtime, recorder) = (Arc::clone(&self.runtime), self.recorder().clone());
        let (facts, made) = (failed.to_vec(), Arc::clone(&place));
        let make = move || {
            let plan = || plan_without(&runtime, &recorder, &planner, &facts);
            made.get_or_try_init(plan).cloned()
        };
        let plan = match (place.get(), control) {
            (Some(plan), _) => Ok(Arc::clone(plan)),
            (None, Some(control)) => control.wait_for(make)?,
            (None, None) => make(),
        };
        let plan = plan.map_err(|reason| self.no_other_plan(newly, reason))?;
        self.has_others.store(true, Ordering::Release);
        Ok(plan)
    }

    fn no_other_plan(&self, facts: &[PlanFact], reason: String) -> RuntimeError {
        let dims = self.program().graph().dims();
        let fact = facts.first();
        let expected = fact.map_or_else(String::new, |fact| {
            format!(
                "{} == {}",
                dims.display(fact.left),
                dims.display(fact.right)
            )
        });
        let origin = fact.map_or_else(String::new, |fact| fact.origin.clone());
        RuntimeError::NoOtherPlan {
            expected,
            origin,
            reason,
        }
    }

    fn other_plans(&self) -> Vec<Arc<Plan>> {
        let others = self.others.lock();
        let made = others.iter().filter_map(|(_, place)| place.get().cloned());
        made.collect()
    }
}

/// Makes the plan without these facts.
fn plan_without(
    runtime: &Runtime,
    recorder: &Recorder,
    PlannerHandle(planner): &PlannerHandle,
    facts: &[PlanFact],
) -> Result<Arc<Plan>, String> {
    let program = planner.plan(facts).map_err(|error| error.to_string())?;
    Counters::count(&runtime.counters().other_plans);
    recorder.count(Counter::Fallback);
    tracing::info!(
        facts = facts.len(),
        "planned without facts that do not hold"
    );
    let launch_plans = runtime.options().launch_plans;
    let prepared = Prepared::new(program, launch_plans, recorder.clone());
    Ok(Arc::new(Plan::new(runtime, prepared)))
}

/// The event of a program's calls.
fn run_event(recorder: &Recorder, program: &Program) -> EventId {
    let name = program.graph().name();
    recorder
        .timing
        .named(Category::Runtime, "run_", name, "Calls of ")
}

fn same(left: &PlanFact, right: &PlanFact) -> bool {
    (left.left, left.right) == (right.left, right.right)
}

/// The sizes of inputs in a row, with their ranks: what picks the plan.
fn sizes_of(inputs: &[Tensor]) -> Key {
    let mut key = Key::new();
    for tensor in inputs {
        key.push(tensor.rank() as i64);
        key.extend(tensor.shape().iter().map(|&size| size as i64));
    }
    key
}
