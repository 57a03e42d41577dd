//! The interface through which executors use the runtime's threads.

use std::sync::Arc;

/// Work that consists of numbered, independent tasks.
pub trait Job: Send + Sync {
    /// Performs tasks `first..last`. `worker` is below [`TaskPool::threads`], and no two concurrent calls have the same
    /// one.
    fn run(&self, worker: usize, first: u64, last: u64);
}

/// Threads that share the tasks of a job.
pub trait TaskPool: Send + Sync {
    /// The maximum number of participating threads, including the caller; at least 1.
    fn threads(&self) -> usize;

    /// Runs tasks `0..tasks` of a job, each once, and returns when all are done. The caller takes part. It may be called
    /// from several threads at once, and from within a job, and always makes progress.
    fn run(&self, job: &Arc<dyn Job>, tasks: u64);
}

/// Runs every task on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerOnly;

impl TaskPool for CallerOnly {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
        if tasks > 0 {
            job.run(0, 0, tasks);
        }
    }
}
