//! Counters of a cache: [`CacheStats`]. Every outcome other than a hit has its own counter.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::miss::MissCategory;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Event counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// Statistics of a cache since its creation or the last [reset](crate::TieredCache::reset_stats).
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
            /// The event counters.
            pub(crate) fn snapshot(&self, kernels: usize, bytes: usize) -> CacheStats {
                CacheStats {
                    kernels: kernels as u64,
                    bytes: bytes as u64,
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }

            /// Sets every counter to zero.
            pub(crate) fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }

        impl CacheStats {
            /// Every counter with its name, in declaration order.
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
    /// Lookups answered by another thread's compile.
    shared,
    /// Lookups that missed in every tier.
    misses,
    /// Entries found damaged.
    corrupt,
    /// Entries of other versions.
    skewed,
    /// Entries and folders rejected as untrusted.
    rejected,
    /// System errors during lookups.
    io_error,
    /// Compiles started.
    compiles,
    /// Compiles that produced a value.
    compile_ok,
    /// Compiles that failed.
    compile_err,
    /// Compiles that panicked.
    panics,
    /// Lookups answered by a remembered failure.
    remembered_failures,
    /// Waits that timed out.
    timeout,
    /// Waits cancelled.
    cancelled,
    /// Lookups that compiled in parallel because another compile took too long.
    takeovers,
    /// Lookups that compiled in parallel because a compiling thread may not wait.
    reentrant,
    /// Entries stored in tiers.
    stored,
    /// Entries that could not be stored.
    not_stored,
    /// Values evicted from memory.
    evicted,
    /// Entries evicted from tiers.
    tier_evicted,
    /// Nanoseconds spent compiling.
    compile_nanoseconds,
    /// Nanoseconds of compile time saved by tiers.
    saved_nanoseconds,
}

impl CacheStats {
    /// Lookups that needed no compile.
    pub fn hits(&self) -> u64 {
        self.memory_hits + self.tier_hits + self.shared
    }

    /// The hit rate over all lookups that returned a value or missed, from 0 to 1; 1 if there were none.
    pub fn hit_rate(&self) -> f64 {
        match self.hits() + self.misses {
            0 => 1.0,
            lookups => self.hits() as f64 / lookups as f64,
        }
    }

    /// The total compile time.
    pub fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.compile_nanoseconds)
    }

    /// The mean compile time; `None` if nothing was compiled.
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
