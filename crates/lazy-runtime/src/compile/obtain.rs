//! Code for the kernels of a plan: requested all at once, waited for one by one.

use std::sync::Arc;
use std::time::Duration;

use kiln_backend::Schedule;
use kiln_interpreter::InterpretError;
use kiln_kernel_cache::{CacheError, Failure, Ticket, Waiter};
use kiln_timing::Counter;
use smallvec::SmallVec;

use super::failure::{KernelFailure, error_of};
use super::patience::{Patience, Permission};
use super::queue::Urgency;
use super::store::{Asked, Choice, Kernels};
use super::workers::{Work, Workers};
use super::{CompiledKernel, Counters, KernelIdentity};
use crate::call::CallControl;
use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::recorder::Recorder;

/// How often a waiting call that may be stopped checks whether it was.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A kernel that a step launches: the choices whose predicates hold, best first.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) identity: &'a Arc<KernelIdentity>,
    pub(crate) choices: SmallVec<[&'a Choice; 2]>,
    /// The approximate time its code is expected to save if a call continues without it, in nanoseconds: of the kernels
    /// that wait to be compiled, the one that saves most is compiled next.
    pub(crate) worth: u64,
}

/// Code, or the reason for its absence.
pub(crate) type Chosen = Result<(Arc<CompiledKernel>, Schedule), NoCode>;

/// Why a step has no code.
#[derive(Debug)]
pub(crate) enum NoCode {
    /// There will be none, or not in time.
    Error(RuntimeError),
    /// There may be code later.
    Later,
}

/// A compile, as a job for a thread.
struct CompileJob {
    kernels: Arc<Kernels>,
    ticket: Ticket<CompiledKernel, KernelFailure>,
    identity: Arc<KernelIdentity>,
    schedule: Schedule,
    allowed: bool,
    recorder: Recorder,
    /// The span of the call that needed it first.
    origin: Option<tracing::span::Id>,
}

impl Work for CompileJob {
    fn run(self: Box<Self>) {
        let Self {
            kernels,
            ticket,
            identity,
            schedule,
            allowed,
            recorder,
            origin,
        } = *self;
        // It is not the parent span: the call may end earlier, and other calls may wait too. An id that is no longer
        // known is ignored.
        let span = tracing::info_span!(parent: None, "runtime.compile_job");
        span.follows_from(origin);
        let _entered = span.entered();
        // The ticket notifies the waiters.
        let _ = kernels.fulfil(ticket, &identity, &schedule, allowed, &recorder);
    }

    fn is_wanted(&self) -> bool {
        self.ticket.n_waiting() > 0
    }
}

/// The state of a request.
enum Progress {
    Done(Chosen),
    Waiting(Waiter<CompiledKernel, KernelFailure>),
}

/// One request.
struct Request<'r, 'w> {
    wanted: &'r Wanted<'w>,
    /// The current choice.
    at: usize,
    first_error: Option<RuntimeError>,
    progress: Progress,
}

/// What is needed to request a compile.
pub(crate) struct Obtaining<'a> {
    pub(crate) kernels: &'a Arc<Kernels>,
    pub(crate) workers: &'a Workers,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) recorder: &'a Recorder,
}

impl Obtaining<'_> {
    /// Code for each of these kernels, compiled on the threads where it is missing, as long as the patience lasts.
    pub(crate) fn obtain(&self, wanted: &[Wanted<'_>], patience: &Patience<'_>) -> Vec<Chosen> {
        let mut requests = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let mut request = Request {
                wanted,
                at: 0,
                first_error: None,
                progress: Progress::Done(Err(NoCode::Later)),
            };
            self.ask(&mut request, patience);
            requests.push(request);
        }
        let waits = |request: &Request<'_, '_>| matches!(request.progress, Progress::Waiting(_));
        if requests.iter().any(waits) {
            let begin = self.clock.now();
            let _span = self.recorder.wait();
            if !requests
                .iter_mut()
                .all(|request| self.wait(request, patience))
            {
                self.give_up(&mut requests, patience);
            }
            let blocked = self.clock.now().saturating_sub(begin);
            self.kernels.counters.add_blocked(blocked);
            if requests.iter().any(Request::is_timeout) {
                Counters::count(&self.kernels.counters.timeouts);
            }
            self.recorder.timing.counters().add_blocked(blocked);
        }
        let done = requests.into_iter().map(|request| match request.progress {
            Progress::Done(chosen) => chosen,
            Progress::Waiting(_) => Err(NoCode::Later),
        });
        done.collect()
    }

    /// Requests a request's choices, one after the other, until one is available or waited for.
    fn ask(&self, request: &mut Request<'_, '_>, patience: &Patience<'_>) {
        loop {
            let identity = request.wanted.identity;
            let Some(choice) = request.wanted.choices.get(request.at) else {
                let error = request.first_error.take();
                let error = error.unwrap_or_else(|| no_compiler(identity.name()));
                request.progress = Progress::Done(Err(NoCode::Error(error)));
                return;
            };
            let schedule = &choice.schedule;
            match self.kernels.ask(identity, &choice.key) {
                Asked::Ready(compiled) => {
                    self.recorder.count(Counter::Hit);
                    request.progress = Progress::Done(Ok((compiled, schedule.clone())));
                    return;
                }
                Asked::Failed(failure) => request.failed(choice, failure),
                Asked::Follow(waiter) => {
                    self.recorder.count(Counter::Hit);
                    match patience.permission {
                        Permission::Compile(Urgency::Urgent) => {
                            self.workers.hurry(choice.key.digest());
                        }
                        Permission::Compile(Urgency::Background { .. }) => {
                            let worth = request.wanted.worth;
                            self.workers.add_worth(choice.key.digest(), worth);
                        }
                        Permission::LookUp | Permission::Demand => {}
                    }
                    request.progress = Progress::Waiting(waiter);
                    return;
                }
                Asked::Lead(ticket) => {
                    let waiter = ticket.waiter();
                    // Named here, in the order of steps, rather than in the order of the threads.
                    self.recorder.function(identity);
                    let (urgency, allowed) = match patience.permission {
                        Permission::Compile(urgency) => {
                            (urgency.worth_more(request.wanted.worth), true)
                        }
                        Permission::LookUp | Permission::Demand => (Urgency::Urgent, false),
                    };
                    // In a forked child it cannot be waited for, so it is compiled here.
                    let Some(waiter) = waiter else {
                        let result =
                            self.kernels
                                .fulfil(ticket, identity, schedule, allowed, self.recorder);
                        match result {
                            Some(Ok(found)) => {
                                let compiled = self.kernels.found(identity, found);
                                request.progress = Progress::Done(Ok((compiled, schedule.clone())));
                                return;
                            }
                            Some(Err(failure)) => {
                                request.failed(choice, failure);
                                continue;
                            }
                            None => return self.missing(request, choice, patience),
                        }
                    };
                    let job = CompileJob {
                        kernels: Arc::clone(self.kernels),
                        ticket,
                        identity: Arc::clone(identity),
                        schedule: schedule.clone(),
                        allowed,
                        recorder: self.recorder.clone(),
                        origin: tracing::Span::current().id(),
                    };
                    self.workers
                        .run(choice.key.digest(), urgency, Box::new(job));
                    request.progress = Progress::Waiting(waiter);
                    return;
                }
            }
        }
    }

    /// Called when the call has ended, so that it waits no longer. The last request is withdrawn first, so that no
    /// thread whose compile ends with the call starts another one that is no longer needed.
    fn give_up(&self, requests: &mut [Request<'_, '_>], patience: &Patience<'_>) {
        for request in requests.iter_mut().rev() {
            let Some(&choice) = request.wanted.choices.get(request.at) else {
                continue;
            };
            let ended = patience.control.map_or(Ok(()), CallControl::check);
            let (Progress::Waiting(_), Err(error)) = (&request.progress, ended) else {
                continue;
            };
            // A call that ran out of time may be repeated and find the code; a cancelled one may not.
            if matches!(error, RuntimeError::Interpret(InterpretError::Cancelled)) {
                self.kernels.cancel(choice.key.digest());
            }
            request.progress = Progress::Done(Err(NoCode::Error(error)));
            // The compile is dropped if it has not begun and has no other waiter.
            if self.workers.forget(&choice.key.digest()) {
                self.kernels.note_change();
            }
        }
    }

    /// Waits for a request, and for its next choice if that fails; stops if the call ends meanwhile.
    fn wait(&self, request: &mut Request<'_, '_>, patience: &Patience<'_>) -> bool {
        while let Progress::Waiting(waiter) = &request.progress {
            let Some(&choice) = request.wanted.choices.get(request.at) else {
                return true;
            };
            if !self.watch(waiter, patience) {
                return false;
            }
            match waiter.wait(patience.limit(self.clock.now())) {
                Ok(found) => {
                    let compiled = self.kernels.found(request.wanted.identity, found);
                    let schedule = choice.schedule.clone();
                    request.progress = Progress::Done(Ok((compiled, schedule)));
                }
                Err(Failure::Cache(CacheError::Timeout { .. })) => {
                    let now = self.clock.now();
                    let no_code = if patience.is_failed(now) {
                        self.recorder.count(Counter::Timeout);
                        NoCode::Error(RuntimeError::CompileTimeout {
                            kernel: request.wanted.identity.name().to_owned(),
                        })
                    } else {
                        NoCode::Later
                    };
                    request.progress = Progress::Done(Err(no_code));
                }
                Err(Failure::Cache(CacheError::Abandoned { .. })) => {
                    if patience.compiles() && !self.kernels.is_budget_spent() {
                        // The leader was not allowed to compile, or gave up.
                        self.ask(request, patience);
                    } else {
                        self.missing(request, choice, patience);
                    }
                }
                Err(failure @ Failure::Cache(_)) => {
                    let error = error_of(request.wanted.identity.name(), failure);
                    request.progress = Progress::Done(Err(NoCode::Error(error)));
                }
                Err(failure) => {
                    request.failed(choice, failure);
                    self.ask(request, patience);
                }
            }
        }
        true
    }

    /// Waits while the patience lasts, or until there is a result; false if the call is stopped meanwhile. Also checks
    /// whether all threads hang.
    fn watch(
        &self,
        waiter: &Waiter<CompiledKernel, KernelFailure>,
        patience: &Patience<'_>,
    ) -> bool {
        let control = patience.control;
        let goes_on = || control.is_none_or(|control| control.check().is_ok());
        let step = match control {
            Some(_) => LOOK_EVERY,
            None => self.workers.hung_after().max(LOOK_EVERY),
        };
        // The total wait is limited by the time slept, regardless of what the clock reads.
        let mut whole = patience.limit(self.clock.now());
        loop {
            if !goes_on() {
                return false;
            }
            let left = patience.limit(self.clock.now()).min(whole);
            let pause = left.min(step);
            if waiter.is_over_within(pause) {
                return true;
            }
            if left.is_zero() {
                return goes_on();
            }
            whole = whole.saturating_sub(pause);
            self.workers.relieve();
        }
    }

    /// No tier has it, and it must not be compiled.
    fn missing(&self, request: &mut Request<'_, '_>, choice: &Choice, patience: &Patience<'_>) {
        let no_code = match patience.permission {
            Permission::Demand => NoCode::Error(RuntimeError::NotInCache {
                kernel: request.wanted.identity.name().to_owned(),
                reason: self.kernels.explain(&choice.key).to_string(),
            }),
            Permission::Compile(_) | Permission::LookUp => NoCode::Later,
        };
        request.progress = Progress::Done(Err(no_code));
    }
}

impl Request<'_, '_> {
    fn is_timeout(&self) -> bool {
        let error = match &self.progress {
            Progress::Done(Err(NoCode::Error(error))) => error,
            _ => return false,
        };
        matches!(error, RuntimeError::CompileTimeout { .. })
    }

    /// The current choice does not compile; try the next one.
    fn failed(&mut self, choice: &Choice, failure: Failure<KernelFailure>) {
        let error = error_of(self.wanted.identity.name(), failure);
        let schedule = &choice.schedule;
        tracing::warn!(%error, %schedule, "a schedule failed to compile");
        self.first_error.get_or_insert(error);
        self.at += 1;
    }
}

/// The error for a kernel that nothing can compile.
pub(crate) fn no_compiler(kernel: &str) -> RuntimeError {
    RuntimeError::NotCompiled {
        step: format!("kernel @{kernel}"),
        reason: "the runtime was made without one".to_owned(),
    }
}
