//! The runtime's threads, as executors use them.

use std::sync::Arc;

/// Work that consists of numbered, independent tasks.
pub trait Job: Send + Sync {
    /// Performs tasks `first..last`. `worker` is below [`TaskPool::threads`], and no two calls that run at one time
    /// have the same one.
    fn run(&self, worker: usize, first: u64, last: u64);
}

/// Threads that share out the tasks of a job.
pub trait TaskPool: Send + Sync {
    /// How many threads take part at most, the caller among them; at least 1.
    fn threads(&self) -> usize;

    /// Runs tasks `0..tasks` of a job, each once, and returns when all are done. The caller takes part. Called from
    /// several threads at once, and from within a job, it makes progress.
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
