//! What a cache did, counted: [`CacheStats`]. Everything that goes another way than a hit has a counter of its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::miss::MissCategory;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters, as they are counted.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// What a cache did since it was made, or since [reset](crate::TieredCache::reset_stats).
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheStats {
            /// Values in memory now.
            pub kernels: u64,
            /// The memory they take.
            pub bytes: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The counts, beside what is in memory.
            pub(crate) fn snapshot(&self, kernels: usize, bytes: usize) -> CacheStats {
                CacheStats {
                    kernels: kernels as u64,
                    bytes: bytes as u64,
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }

            /// Everything from nothing.
            pub(crate) fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }

        impl CacheStats {
            /// Every counter by name, in this order.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![
                    ("kernels", self.kernels),
                    ("bytes", self.bytes),
                    $((stringify!($name), self.$name),)*
                ]
            }
        }
    };
}

counters! {
    /// Lookups answered from memory.
    memory_hits,
    /// Lookups answered by a tier.
    tier_hits,
    /// Lookups answered by a compile that another thread was at.
    shared,
    /// Lookups that no tier answered.
    misses,
    /// Entries found damaged.
    corrupt,
    /// Entries of other versions.
    skewed,
    /// Entries and folders not believed.
    rejected,
    /// Failures of the system while something was looked up.
    io_error,
    /// Compiles begun.
    compiles,
    /// Compiles that gave a value.
    compile_ok,
    /// Compiles that failed.
    compile_err,
    /// Compiles that panicked.
    panics,
    /// Lookups answered by a failure from before.
    remembered_failures,
    /// Waits given up at their limit.
    timeout,
    /// Waits cancelled.
    cancelled,
    /// Compiles that others were at, for too long to be waited for.
    takeovers,
    /// Compiles that others were at, and a thread that compiles may not wait for.
    reentrant,
    /// Entries stored in tiers.
    stored,
    /// Entries that could not be.
    not_stored,
    /// Values evicted from memory.
    evicted,
    /// Entries evicted from tiers.
    tier_evicted,
    /// Nanoseconds of compiling.
    compile_nanoseconds,
    /// Nanoseconds of compiling that tiers saved.
    saved_nanoseconds,
}

impl CacheStats {
    /// Lookups that nothing was compiled for.
    pub fn hits(&self) -> u64 {
        self.memory_hits + self.tier_hits + self.shared
    }

    /// Hits of all lookups that gave a value or were missed, from 0 to 1; 1 where there was none.
    pub fn hit_rate(&self) -> f64 {
        match self.hits() + self.misses {
            0 => 1.0,
            lookups => self.hits() as f64 / lookups as f64,
        }
    }

    /// The time of all compiles.
    pub fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.compile_nanoseconds)
    }

    /// The mean time of a compile; none without one.
    pub fn average_compile_time(&self) -> Option<Duration> {
        let nanoseconds = self.compile_nanoseconds.checked_div(self.compiles)?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

impl fmt::Display for CacheStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "hit rate {:.1} %: {} of {}",
            100.0 * self.hit_rate(),
            self.hits(),
            self.hits() + self.misses
        )?;
        writeln!(
            formatter,
            "compiled {:.1?}, saved {:.1?}",
            self.compile_time(),
            Duration::from_nanos(self.saved_nanoseconds)
        )?;
        let times = ["compile_nanoseconds", "saved_nanoseconds"];
        self.counters()
            .into_iter()
            .filter(|(name, count)| *count > 0 && !times.contains(name))
            .try_for_each(|(name, count)| writeln!(formatter, "{name:20} {count}"))
    }
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_time(counter: &AtomicU64, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        counter.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn count_miss(&self, category: MissCategory) {
        match category {
            MissCategory::Absent => {}
            MissCategory::Corrupt => Self::count(&self.corrupt),
            MissCategory::Skewed => Self::count(&self.skewed),
            MissCategory::Rejected => Self::count(&self.rejected),
            MissCategory::IoError => Self::count(&self.io_error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_averages_are_of_the_counts() {
        let counters = Counters::default();
        let empty = counters.snapshot(0, 0);
        assert_eq!(
            (empty.hit_rate(), empty.average_compile_time()),
            (1.0, None)
        );
        for _ in 0..3 {
            Counters::count(&counters.memory_hits);
        }
        Counters::count(&counters.misses);
        Counters::count(&counters.compiles);
        Counters::count(&counters.compiles);
        Counters::add_time(&counters.compile_nanoseconds, Duration::from_millis(30));
        for category in [
            MissCategory::Absent,
            MissCategory::Corrupt,
            MissCategory::Skewed,
            MissCategory::Rejected,
            MissCategory::IoError,
        ] {
            counters.count_miss(category);
        }
        let stats = counters.snapshot(2, 900);
        assert_eq!(stats.hit_rate(), 0.75);
        assert_eq!(
            stats.average_compile_time(),
            Some(Duration::from_millis(15))
        );
        insta::assert_snapshot!(stats, @"
        hit rate 75.0 %: 3 of 4
        compiled 30.0ms, saved 0.0ns
        kernels              2
        bytes                900
        memory_hits          3
        misses               1
        corrupt              1
        skewed               1
        rejected             1
        io_error             1
        compiles             2
        ");
        counters.reset();
        assert_eq!(counters.snapshot(0, 0), CacheStats::default());
    }
}
