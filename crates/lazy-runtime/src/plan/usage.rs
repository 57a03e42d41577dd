//! How often a plan was used, and for how long it ran.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_timing::Sampler;

use crate::per_thread::PerThread;

/// All calls are counted, in the slot of their thread; of short calls, only some are timed, and each represents the
/// untimed ones before it.
#[derive(Debug, Default)]
pub(crate) struct Use {
    of_threads: PerThread<OfThread>,
    /// Of the plans that this one replaced: calls and nanoseconds.
    before: [AtomicU64; 2],
}

#[derive(Debug, Default)]
struct OfThread {
    calls: AtomicU64,
    sampler: Sampler,
    nanoseconds: AtomicU64,
}

impl Use {
    /// Counts a call of this thread; returns its number, if it is to be timed.
    pub(crate) fn count(&self) -> Option<u64> {
        let own = self.of_threads.own();
        let number = own.calls.fetch_add(1, Ordering::Relaxed);
        own.sampler.is_due(number).then_some(number)
    }

    /// Adds the time of a call of this thread, and the same for each untimed one before it.
    pub(crate) fn add(&self, number: u64, time: Duration) {
        let own = self.of_threads.own();
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let stands_for = 1 + own.sampler.note(number, time);
        let nanoseconds = nanoseconds.saturating_mul(stands_for);
        own.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds the usage of another plan for the same sizes, which this one replaced.
    pub(crate) fn take_over(&self, before: &Self) {
        let (calls, nanoseconds) = before.read();
        for (number, more) in self.before.iter().zip([calls, nanoseconds]) {
            number.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Calls and nanoseconds.
    pub(crate) fn read(&self) -> (u64, u64) {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let [calls, nanoseconds] = self.before.each_ref().map(load);
        self.of_threads
            .all()
            .fold((calls, nanoseconds), |sum, own| {
                (sum.0 + load(&own.calls), sum.1 + load(&own.nanoseconds))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_thread::tests::elsewhere;

    #[test]
    fn untimed_calls_count_like_timed_ones() {
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
        elsewhere(|| {
            later
                .count()
                .map(|number| later.add(number, Duration::from_micros(5)))
        });
        assert_eq!(later.read(), (1002, nanoseconds + 35_000));
    }
}
