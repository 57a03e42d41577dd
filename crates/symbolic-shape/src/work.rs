//! The work done by a table, counted in steps rather than time, so that it is the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of all proofs of a table. Proofs need only `&DimTable`, so the counter is atomic; a copy continues from its value.
#[derive(Debug, Default)]
pub(crate) struct Work(AtomicU64);

impl Work {
    pub(crate) fn spent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, steps: u64) {
        self.0.fetch_add(steps, Ordering::Relaxed);
    }
}

impl Clone for Work {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.spent()))
    }
}
