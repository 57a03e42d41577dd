//! The calls of a program: which of them are timed, and whether the initial calls that a policy waits for are over.

use std::sync::atomic::{AtomicU64, Ordering};

use kiln_timing::{EventId, Sampler, Span, Timing};

use crate::options::CompilePolicy;
use crate::per_thread::PerThread;

/// Counts calls; after the first ones, without a counter to which all threads write.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The number so far, up to `n_distinguished`.
    first: AtomicU64,
    /// Later calls are not distinguished.
    n_distinguished: u64,
    of_threads: PerThread<OfThread>,
}

#[derive(Debug, Default)]
struct OfThread {
    calls: AtomicU64,
    sampler: Sampler,
}

impl Calls {
    pub(crate) fn new(policy: CompilePolicy) -> Self {
        let n_distinguished = match policy {
            CompilePolicy::AfterCalls(calls) => calls.into(),
            _ => 0,
        };
        Self {
            first: AtomicU64::new(0),
            n_distinguished,
            of_threads: PerThread::default(),
        }
    }

    /// Counts a call; returns its number, counted from 1, as far as the policy distinguishes calls.
    pub(crate) fn count(&self) -> u64 {
        if self.first.load(Ordering::Relaxed) >= self.n_distinguished {
            return self.n_distinguished;
        }
        self.first.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Times a call, if it is due.
    pub(crate) fn time<'a>(&'a self, timing: &'a Timing, event: EventId) -> Span<'a> {
        let own = self.of_threads.own();
        let number = own.calls.fetch_add(1, Ordering::Relaxed);
        timing.begin_sampled(event, &own.sampler, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_distinguished_as_far_as_the_policy_requires() {
        let calls = Calls::new(CompilePolicy::AfterCalls(3));
        let numbers = [(); 5].map(|()| calls.count());
        assert_eq!(numbers, [1, 2, 3, 3, 3]);
        assert_eq!(Calls::new(CompilePolicy::FirstUse).count(), 0);
    }
}
