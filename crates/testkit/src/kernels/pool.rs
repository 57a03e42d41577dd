//! A pool without threads that simulates what threads may do: separate tasks, out of order, on several workers.

use kiln_backend::{Job, TaskPool};
use std::sync::Arc;

/// Runs every task separately, the last one first, as if on `threads` alternating workers.
#[derive(Clone, Copy, Debug)]
pub struct BackwardPool {
    threads: usize,
}

impl BackwardPool {
    /// A pool that reports this many threads, at least 1.
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
        }
    }
}

impl TaskPool for BackwardPool {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
        for task in (0..tasks).rev() {
            job.run((task % self.threads as u64) as usize, task, task + 1);
        }
    }
}
