//! Kernels that crashed their workers: each fails immediately, without a worker, until something has changed or a retry
//! is due.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use kiln_fork_lock::ForkLock;

use crate::error::WorkerError;
use crate::program::{ProgramFile, WorkerProgram};

/// The maximum number of remembered kernels; the oldest are forgotten first.
const MAX_FAILURES: usize = 1000;

/// The time after which a kernel is retried. The cause may have been the machine: memory that other processes took.
const RETRY_AFTER: Duration = Duration::from_secs(600);

/// The kernels, by digests of the requests.
pub(crate) struct Remembered {
    kernels: ForkLock<Kernels>,
    retry_after: Duration,
}

#[derive(Default)]
struct Kernels {
    failures: BTreeMap<[u8; 32], Failure>,
    /// The oldest first.
    order: VecDeque<[u8; 32]>,
}

struct Failure {
    error: WorkerError,
    at: Instant,
    /// The identity of the worker.
    program: Option<ProgramFile>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self::for_time(RETRY_AFTER)
    }
}

impl Remembered {
    /// Sets the retry time.
    pub(crate) fn for_time(retry_after: Duration) -> Self {
        Self {
            kernels: ForkLock::default(),
            retry_after,
        }
    }

    /// The remembered error of a kernel that is not due for a retry.
    pub(crate) fn error_of(&self, key: &[u8; 32], program: &WorkerProgram) -> Option<WorkerError> {
        let kernels = self.kernels.lock();
        let Failure {
            error,
            at,
            program: before,
        } = kernels.failures.get(key)?;
        let is_due = at.elapsed() >= self.retry_after;
        (!is_due && program.file() == *before).then(|| error.clone())
    }

    /// Records that a kernel ended its worker.
    pub(crate) fn note(&self, key: [u8; 32], error: &WorkerError, program: &WorkerProgram) {
        let failure = Failure {
            error: error.clone(),
            at: Instant::now(),
            program: program.file(),
        };
        let mut kernels = self.kernels.lock();
        let kernels = &mut *kernels;
        if kernels.failures.insert(key, failure).is_none() {
            kernels.order.push_back(key);
        }
        while kernels.order.len() > MAX_FAILURES
            && let Some(oldest) = kernels.order.pop_front()
        {
            kernels.failures.remove(&oldest);
        }
    }

    /// Forgets all kernels.
    pub(crate) fn clear(&self) {
        *self.kernels.lock() = Kernels::default();
    }
}
