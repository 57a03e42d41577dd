//! The plans of a program: the main one, and others for sizes on which plan facts fail.
//!
//! A plan serves every call whose sizes satisfy the facts it was built with. At most [`MAX_PARTIAL`] are built without
//! some of the facts; the general plan, built without any, serves the rest. So a program has at most [`MAX_PARTIAL`] + 2
//! plans, whichever facts fail. No lock is held while a plan is built, and each is built once.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_program::Program;
use kiln_symbolic_shape::FactSelection;
use kiln_timing::Counter;

use crate::call::CallControl;
use crate::compile::{Counters, Patience, Permission};
use crate::detached;
use crate::error::RuntimeError;
use crate::plan::{Key, Memo, Prepared};
use crate::planner::Planner;
use crate::recorder::Recorder;
use crate::run::States;
use crate::runtime::Runtime;

/// The maximum number of plans made without some facts, but with others.
const MAX_PARTIAL: usize = 10;

/// The interval at which a waiting call with a limit checks again.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Plan facts by name.
pub(crate) type FactNames = BTreeSet<String>;

/// A plan with the states of its runs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) prepared: Prepared,
    pub(crate) states: Arc<States>,
}

impl Plan {
    pub(crate) fn new(runtime: &Runtime, prepared: Prepared) -> Self {
        let states = Arc::default();
        runtime.hold(&states);
        Self { prepared, states }
    }
}

/// The plans other than the main one.
#[derive(Debug)]
pub(crate) struct OtherPlans {
    planner: Option<PlannerHandle>,
    others: ForkLock<Vec<Arc<OtherPlan>>>,
    /// Whether any plan was ever made.
    any: AtomicBool,
    /// Which plan serves which sizes of inputs.
    choice: Memo<Arc<Plan>>,
}

/// A plan that is made once, without some facts.
#[derive(Debug)]
pub(crate) struct OtherPlan {
    facts: FactSelection,
    plan: ForkCell<Arc<Plan>>,
    /// The process in which a thread makes it; 0 if none yet.
    made_in: AtomicU32,
    /// Why it cannot be made.
    failure: ForkLock<Option<String>>,
}

/// The result of a call's search for a plan that replaces the main one.
#[derive(Debug)]
pub(crate) enum Served {
    /// The plan for its sizes.
    By(Arc<Plan>),
    /// The general plan, until a better one is made.
    Meanwhile(Arc<Plan>),
    /// There is no plan yet, and the call must not wait for one.
    Later,
}

#[derive(Clone)]
struct PlannerHandle(Arc<dyn Planner>);

impl std::fmt::Debug for PlannerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planner")
    }
}

/// What is needed to make a plan.
#[derive(Clone, Copy)]
pub(crate) struct Making<'a> {
    pub(crate) runtime: &'a Arc<Runtime>,
    pub(crate) recorder: &'a Recorder,
    pub(crate) patience: &'a Patience<'a>,
}

impl OtherPlan {
    fn new(facts: FactSelection) -> Self {
        Self {
            facts,
            plan: ForkCell::new(),
            made_in: AtomicU32::new(0),
            failure: ForkLock::default(),
        }
    }

    /// The facts that it may depend on.
    pub(crate) fn facts(&self) -> &FactSelection {
        &self.facts
    }

    /// The plan, once it is made.
    pub(crate) fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.get()
    }

    fn is_general(&self) -> bool {
        self.facts == FactSelection::None
    }

    /// Whether it serves sizes on which these facts fail; the general plan serves all.
    fn serves(&self, failed: &FactNames) -> bool {
        match &self.facts {
            FactSelection::Without(names) => names.is_superset(failed),
            FactSelection::None => true,
            FactSelection::All => failed.is_empty(),
        }
    }

    /// Its approximate cost: its steps, and then the facts that it omits.
    fn cost(&self) -> (usize, usize) {
        let steps = self
            .plan()
            .map(|plan| plan.prepared.program.steps().count());
        let facts = match &self.facts {
            FactSelection::Without(names) => names.len(),
            FactSelection::All | FactSelection::None => 0,
        };
        (steps.unwrap_or(usize::MAX), facts)
    }

    fn make(
        &self,
        planner: &PlannerHandle,
        runtime: &Runtime,
        recorder: &Recorder,
    ) -> Result<Arc<Plan>, String> {
        if let Some(reason) = self.failure.lock().clone() {
            return Err(reason);
        }
        let made = self.plan.get_or_try_init(|| {
            let program = planner.0.plan(&self.facts);
            let program = program.map_err(|error| error.to_string())?;
            Counters::count(&runtime.counters().other_plans);
            recorder.count(Counter::Fallback);
            tracing::info!(facts = ?self.facts, "planned without facts that do not hold");
            Ok(Arc::new(prepare(runtime, recorder, program)))
        });
        made.cloned().inspect_err(|reason: &String| {
            *self.failure.lock() = Some(reason.clone());
        })
    }

    /// Starts making it on a new thread, unless a thread of this process is doing so already.
    fn begin(self: &Arc<Self>, planner: &PlannerHandle, runtime: &Arc<Runtime>, by: &Recorder) {
        let process = std::process::id();
        if self.made_in.swap(process, Ordering::AcqRel) == process {
            return;
        }
        let (this, planner) = (Arc::clone(self), planner.clone());
        let (runtime, recorder) = (Arc::clone(runtime), by.clone());
        detached::start(move || {
            // A waiting call finds the plan, or the reason.
            let making = AssertUnwindSafe(|| this.make(&planner, &runtime, &recorder));
            if catch_unwind(making).is_err() {
                tracing::error!("planning panicked");
                *this.failure.lock() = Some("planning panicked".to_owned());
            }
        });
    }

    fn is_over(&self) -> bool {
        self.plan.get().is_some() || self.failure.lock().is_some()
    }
}

fn prepare(runtime: &Runtime, recorder: &Recorder, program: Program) -> Plan {
    let launch_plans = runtime.options().launch_plans;
    Plan::new(
        runtime,
        Prepared::new(program, launch_plans, recorder.clone()),
    )
}

impl OtherPlans {
    pub(crate) fn new(runtime: &Runtime, planner: Option<Arc<dyn Planner>>) -> Self {
        Self {
            planner: planner.map(PlannerHandle),
            others: ForkLock::default(),
            any: AtomicBool::new(false),
            choice: Memo::new(runtime.options().launch_plans),
        }
    }

    /// Adds a plan that was made elsewhere with these facts.
    pub(crate) fn add(
        &self,
        runtime: &Runtime,
        recorder: &Recorder,
        facts: FactSelection,
        program: Program,
    ) {
        let plan = Arc::new(prepare(runtime, recorder, program));
        let other = OtherPlan {
            plan: ForkCell::from(plan),
            ..OtherPlan::new(facts)
        };
        self.others.lock().push(Arc::new(other));
        self.any.store(true, Ordering::Release);
    }

    /// Whether more plans can be made.
    pub(crate) fn has_planner(&self) -> bool {
        self.planner.is_some()
    }

    /// Whether there ever was such a plan.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The plans that have been made.
    pub(crate) fn made(&self) -> Vec<Arc<OtherPlan>> {
        let others = self.others.lock().clone();
        let made = others.into_iter().filter(|other| other.plan().is_some());
        made.collect()
    }

    /// The plan that served these sizes of inputs before.
    pub(crate) fn chosen(&self, sizes: &Key) -> Option<Arc<Plan>> {
        self.choice.get(sizes).map(|plan| (*plan).clone())
    }

    /// Records which plan serves some sizes.
    pub(crate) fn choose(&self, sizes: Key, plan: Arc<Plan>) {
        self.choice.insert(sizes, plan);
    }

    /// The plan for sizes for which these facts fail: the cheapest existing one, or otherwise a new one. If the call must
    /// not wait until that is made, the general plan if it exists.
    ///
    /// # Errors
    /// Why there is none, by `refuse`; that the call is to end.
    pub(crate) fn serve(
        &self,
        failed: &FactNames,
        making: Making<'_>,
        refuse: &dyn Fn(String) -> RuntimeError,
    ) -> Result<Served, RuntimeError> {
        let partial = match making.patience.permission {
            Permission::Compile(_) => self.partial(failed, true),
            Permission::LookUp | Permission::Demand => self.partial(failed, false),
        };
        if let Some(partial) = partial {
            match self.obtain(&partial, making) {
                Ok(Some(plan)) => return Ok(Served::By(plan)),
                Ok(None) => {
                    let general = self.entry_of_general(false);
                    let general = general.and_then(|general| general.plan().cloned());
                    return Ok(general.map_or(Served::Later, Served::Meanwhile));
                }
                Err(Failed::Ended(error)) => return Err(error),
                // Planning without facts is less likely to fail.
                Err(Failed::Plan(reason)) => {
                    tracing::warn!(reason, "cannot plan without some facts")
                }
            }
        }
        self.general(making, refuse)
    }

    /// The general plan, made if it does not exist.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub(crate) fn general(
        &self,
        making: Making<'_>,
        refuse: &dyn Fn(String) -> RuntimeError,
    ) -> Result<Served, RuntimeError> {
        let no_planner = || refuse("the program has no planner".to_owned());
        let Some(general) = self.entry_of_general(self.planner.is_some()) else {
            return Err(no_planner());
        };
        match self.obtain(&general, making) {
            Ok(Some(plan)) => Ok(Served::By(plan)),
            Ok(None) => Ok(Served::Later),
            Err(Failed::Ended(error)) => Err(error),
            Err(Failed::Plan(reason)) => Err(refuse(reason)),
        }
    }

    /// The best plan with some facts that serves sizes for which others fail: an existing one, one that is being made, or a
    /// new one, if another is allowed.
    fn partial(&self, failed: &FactNames, may_make: bool) -> Option<Arc<OtherPlan>> {
        let mut others = self.others.lock();
        let is_partial = |other: &&Arc<OtherPlan>| !other.is_general();
        let serving = others
            .iter()
            .filter(is_partial)
            .filter(|other| other.serves(failed) && other.failure.lock().is_none());
        // Unmade plans cost most.
        if let Some(best) = serving.min_by_key(|other| other.cost()) {
            return (may_make || best.plan().is_some()).then(|| Arc::clone(best));
        }
        let made = others.iter().filter(is_partial).count();
        if !may_make || self.planner.is_none() || made >= MAX_PARTIAL {
            return None;
        }
        let facts = FactSelection::Without(failed.clone());
        let new = Arc::new(OtherPlan::new(facts));
        others.push(Arc::clone(&new));
        self.any.store(true, Ordering::Release);
        Some(new)
    }

    fn entry_of_general(&self, may_make: bool) -> Option<Arc<OtherPlan>> {
        let mut others = self.others.lock();
        if let Some(general) = others.iter().find(|other| other.is_general()) {
            return Some(Arc::clone(general));
        }
        may_make.then(|| {
            let new = Arc::new(OtherPlan::new(FactSelection::None));
            others.push(Arc::clone(&new));
            self.any.store(true, Ordering::Release);
            new
        })
    }

    /// A plan, made if it does not exist and the patience lasts; `None` if it does not last.
    fn obtain(
        &self,
        other: &Arc<OtherPlan>,
        making: Making<'_>,
    ) -> Result<Option<Arc<Plan>>, Failed> {
        if let Some(plan) = other.plan() {
            return Ok(Some(Arc::clone(plan)));
        }
        let Making {
            runtime,
            recorder,
            patience,
        } = making;
        let Some(planner) = &self.planner else {
            let reason = "the program has no planner".to_owned();
            return Err(Failed::Plan(reason));
        };
        // If only stores may be consulted, the call is interpreted, or nothing may be waited for except the plan itself.
        if patience.permission == Permission::LookUp {
            return Ok(None);
        }
        if patience.is_endless() {
            let made = other.make(planner, runtime, recorder);
            return made.map(Some).map_err(Failed::Plan);
        }
        other.begin(planner, runtime, recorder);
        let begin = runtime.clock().now();
        while !other.is_over() {
            patience.control.map_or(Ok(()), CallControl::check)?;
            let now = runtime.clock().now();
            if patience.is_failed(now) {
                return Err(Failed::Ended(RuntimeError::PlanTimeout));
            }
            let left = patience.limit(now);
            if left.is_zero() {
                patience.control.map_or(Ok(()), CallControl::check)?;
                break;
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
        let waited = runtime.clock().now().saturating_sub(begin);
        runtime.counters().add_blocked(waited);
        match other.plan() {
            Some(plan) => Ok(Some(Arc::clone(plan))),
            None => match other.failure.lock().clone() {
                Some(reason) => Err(Failed::Plan(reason)),
                None => Ok(None),
            },
        }
    }
}

/// Why a plan is missing.
enum Failed {
    /// It cannot be made.
    Plan(String),
    /// The call is to end.
    Ended(RuntimeError),
}

impl From<RuntimeError> for Failed {
    fn from(error: RuntimeError) -> Self {
        Self::Ended(error)
    }
}
