//! How often a plan was used, and for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_timing::Sampler;

/// Calls are all counted; of short ones only some are timed, and stand for those before them.
#[derive(Debug, Default)]
pub(crate) struct Use {
    calls: AtomicU64,
    sampler: Sampler,
    nanoseconds: AtomicU64,
    /// Calls of the plans whose place this one took.
    before: AtomicU64,
}

impl Use {
    /// Counts a call: its number, if it is to be timed.
    pub(crate) fn count(&self) -> Option<u64> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.sampler.is_due(number).then_some(number)
    }

    /// Adds the time of a call, and as much for each of those before it that were not timed.
    pub(crate) fn add(&self, number: u64, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let stands_for = 1 + self.sampler.note(number, time);
        let nanoseconds = nanoseconds.saturating_mul(stands_for);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds what another plan for the same sizes was used, before this one took its place.
    pub(crate) fn take_over(&self, before: &Self) {
        let (calls, nanoseconds) = before.read();
        self.before.fetch_add(calls, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Calls and nanoseconds.
    pub(crate) fn read(&self) -> (u64, u64) {
        let calls = self.calls.load(Ordering::Relaxed) + self.before.load(Ordering::Relaxed);
        (calls, self.nanoseconds.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_not_timed_count_like_those_that_are() {
        let (plan, later) = (Use::default(), Use::default());
        for _ in 0..1000 {
            if let Some(number) = plan.count() {
                plan.add(number, Duration::from_micros(1));
            }
        }
        let (calls, nanoseconds) = plan.read();
        assert_eq!(calls, 1000);
        assert!(
            (900_000..=1_000_000).contains(&nanoseconds),
            "{nanoseconds}"
        );
        later.take_over(&plan);
        let number = later.count().unwrap();
        later.add(number, Duration::from_micros(30));
        assert_eq!(later.read(), (1001, nanoseconds + 30_000));
    }
}
