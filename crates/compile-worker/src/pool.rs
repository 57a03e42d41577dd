//! The workers of a process: started ahead by a separate thread, taken for one compile, returned.
//!
//! The thread matters: the kernel sends a worker its death signal when the *thread* that started it ends. So workers are
//! started by one thread that lives as long as the pool.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::error::WorkerError;
use crate::limits::CompileLimits;
use crate::process::Worker;
use crate::program::WorkerProgram;

/// A worker ends after this many compiles, so that memory leaked by the compiler is returned.
const MAX_REQUESTS: usize = 500;

/// The interval at which a wait for a worker checks whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Workers.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    process: u32,
}

#[derive(Debug)]
struct Shared {
    program: WorkerProgram,
    limits: CompileLimits,
    most: usize,
    begin: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// All workers: idle, taken, or being started.
    live: usize,
    /// The number of waiting callers.
    waiting: usize,
    backoff: Backoff,
    /// Why the last start failed.
    failure: Option<WorkerError>,
    is_stopped: bool,
}

impl Pool {
    /// A pool of at most `most` workers at a time; the first one is started immediately.
    pub(crate) fn new(
        program: &WorkerProgram,
        limits: &CompileLimits,
        most: usize,
    ) -> Result<Self, WorkerError> {
        let shared = Arc::new(Shared {
            program: program.clone(),
            limits: *limits,
            most: most.max(1),
            begin: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let kept = Arc::clone(&shared);
        let keeper = std::thread::Builder::new().name("kiln-worker-keeper".to_owned());
        let keeper = keeper
            .spawn(move || kept.keep())
            .map_err(|error| WorkerError::Start {
                program: Some(program.path().to_owned()),
                problem: format!("no thread to start it: {error}"),
            })?;
        Ok(Self {
            shared,
            keeper: Some(keeper),
            process: std::process::id(),
        })
    }

    /// A worker that can compile, exclusively for the caller.
    pub(crate) fn take(
        &self,
        compiler: &str,
        is_cancelled: &mut dyn FnMut() -> bool,
    ) -> Result<Worker, WorkerError> {
        let mut worker = self.shared.take(is_cancelled)?;
        match worker.ready(compiler, &self.shared.program) {
            Ok(()) => {
                self.shared.lock().backoff.succeeded();
                Ok(worker)
            }
            Err(error) => {
                drop(worker);
                let mut state = self.shared.lock();
                state.live -= 1;
                state.failed(error.clone(), self.shared.begin.elapsed());
                drop(state);
                self.shared.changed.notify_all();
                Err(error)
            }
        }
    }

    /// Returns a worker; it is reused, or ends if it has compiled enough.
    pub(crate) fn give_back(&self, worker: Worker) {
        if worker.n_requests >= MAX_REQUESTS {
            return self.bury(worker);
        }
        self.shared.lock().idle.push(worker);
        self.shared.changed.notify_all();
    }

    /// Returns an unusable worker. When this returns, its process has ended and its descriptors are closed.
    pub(crate) fn bury(&self, worker: Worker) {
        drop(worker);
        self.shared.lock().live -= 1;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The data is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn take(&self, is_cancelled: &mut dyn FnMut() -> bool) -> Result<Worker, WorkerError> {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let taken = loop {
            if let Some(worker) = state.idle.pop() {
                break Ok(worker);
            }
            let is_waiting = state.backoff.is_waiting(self.begin.elapsed());
            if let Some(failure) = &state.failure
                && is_waiting
                && state.live == 0
            {
                break Err(failure.clone());
            }
            if is_cancelled() {
                break Err(WorkerError::Cancelled);
            }
            state = self.wait(state, LOOK_EVERY);
        };
        state.waiting -= 1;
        drop(state);
        // The next one is started ahead.
        self.changed.notify_all();
        taken
    }

    /// Starts workers until the pool ends: one more than there are waiting callers.
    fn keep(&self) {
        let mut state = self.lock();
        while !state.is_stopped {
            let is_short = state.idle.len() <= state.waiting && state.live < self.most;
            if !is_short {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if state.backoff.is_waiting(self.begin.elapsed()) {
                state = self.wait(state, LOOK_EVERY);
                continue;
            }
            state.live += 1;
            drop(state);
            let started = Worker::start(&self.program, &self.limits);
            state = self.lock();
            match started {
                Ok(worker) => {
                    // Those that have compiled before are taken first.
                    state.idle.insert(0, worker);
                }
                Err(error) => {
                    tracing::warn!(%error, "a compile worker failed to start");
                    state.live -= 1;
                    state.failed(error, self.begin.elapsed());
                }
            }
            self.changed.notify_all();
        }
    }
}

impl State {
    fn failed(&mut self, error: WorkerError, now: Duration) {
        self.backoff.failed(now);
        self.failure = Some(error);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The thread and the workers belong to the parent, so they are not touched.
            std::mem::forget(self.keeper.take());
            return;
        }
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        let idle = std::mem::take(&mut self.shared.lock().idle);
        drop(idle);
    }
}
