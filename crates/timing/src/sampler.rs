//! Sampling of short calls: a span costs a tenth of a microsecond, and some calls take no more than one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::nanoseconds;

/// The cost of a span in nanoseconds; measured, and generous.
const SPAN_COST: u64 = 200;

/// At least this many nanoseconds of calls per nanosecond of timing them. A call may pass two samplers (its program's and
/// its plan's), which together stay within a hundredth of its time even where a span costs twice the above.
const CALLS_PER_COST: u64 = 400;

/// Decides which calls are timed, so that timing takes a quarter of a hundredth of their time: all calls that take 80
/// us or longer, and fewer the shorter they are. Each place that calls in a loop has its own sampler, and counts its
/// calls from 0, for [`Timing::begin_sampled`](crate::Timing::begin_sampled) or for times that it measures itself.
#[derive(Debug, Default)]
pub struct Sampler {
    /// The number of the next call that is timed.
    next: AtomicU64,
    /// Reported calls.
    reported: AtomicU64,
    /// The verbosity counter at the last of them.
    changes: AtomicU64,
}

impl Sampler {
    /// A new sampler, which times the first call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the call of this number is to be timed.
    #[inline]
    pub fn is_due(&self, number: u64) -> bool {
        number >= self.next.load(Ordering::Relaxed)
    }

    /// Discards the calls before one if the verbosity was changed since the last timed one: they were timed differently, or
    /// must not be reported.
    pub(crate) fn reset_after_change(&self, changes: u64, number: u64) {
        if self.changes.swap(changes, Ordering::Relaxed) != changes {
            self.reported.store(number, Ordering::Relaxed);
        }
    }

    /// Records the time of a timed call. Returns the number of untimed calls since the previous one.
    pub fn note(&self, number: u64, time: Duration) -> u64 {
        let skipped = (SPAN_COST * CALLS_PER_COST) / nanoseconds(time).max(1);
        self.next
            .store(number.saturating_add(1 + skipped), Ordering::Relaxed);
        let reported = self.reported.swap(number + 1, Ordering::Relaxed);
        number.saturating_sub(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `calls` calls of that length are timed, and how many are reported in total.
    fn timed(calls: u64, nanoseconds: u64) -> (u64, u64) {
        let sampler = Sampler::new();
        let (mut timed, mut reported) = (0, 0);
        for number in 0..calls {
            if sampler.is_due(number) {
                timed += 1;
                reported += 1 + sampler.note(number, Duration::from_nanos(nanoseconds));
            }
        }
        (timed, reported)
    }

    #[test]
    fn shorter_calls_are_sampled_less_often() {
        assert_eq!(timed(1000, 80_001), (1000, 1000));
        assert_eq!(timed(1000, 80_000), (500, 999));
        assert_eq!(timed(1000, 1_000), (13, 973));
        assert_eq!(timed(1, 1), (1, 1));
        assert_eq!(timed(1_000_000, 0).0, 13);
    }
}
