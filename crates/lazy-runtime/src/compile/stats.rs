//! Counters of what a runtime compiled, and of everything it did otherwise than planned.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_kernel_cache::CacheStats;

/// What a runtime did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompilationStats {
    /// Compiles, failed ones included.
    pub compilations: u64,
    /// How often a kernel that was asked for was there.
    pub hits: u64,
    /// How often it was not.
    pub misses: u64,
    /// Time spent compiling, all threads together.
    pub compile_time: Duration,
    /// Kernels in memory, each counted once whatever its variants.
    pub unique_kernels: u64,
    /// Compiles that failed.
    pub failures: u64,
    /// Sums of products that were left to plain loops.
    pub fallback_contractions: u64,
    /// Steps that the interpreter computed.
    pub interpreted_steps: u64,
    /// Plans made because a plan fact did not hold.
    pub other_plans: u64,
    /// Launch plans made: new combinations of sizes.
    pub launch_plans: u64,
    /// Steps whose code was not there in time, so that the interpreter answered; among the interpreted steps.
    pub fallbacks: u64,
    /// Time that calls waited for code, all threads together.
    pub blocked: Duration,
    /// Calls that failed because code was not there within the limit.
    pub timeouts: u64,
    /// What the cache of kernels did.
    pub cache: CacheStats,
}

impl CompilationStats {
    /// The share of requests that found their kernel; none were made: 0.
    pub fn hit_rate(&self) -> f64 {
        let requests = self.hits + self.misses;
        if requests == 0 {
            0.0
        } else {
            self.hits as f64 / requests as f64
        }
    }
}

/// The same, being counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) compilations: AtomicU64,
    pub(crate) compile_nanoseconds: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) fallback_contractions: AtomicU64,
    pub(crate) interpreted_steps: AtomicU64,
    pub(crate) other_plans: AtomicU64,
    pub(crate) launch_plans: AtomicU64,
    pub(crate) fallbacks: AtomicU64,
    pub(crate) blocked_nanoseconds: AtomicU64,
    pub(crate) timeouts: AtomicU64,
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A call waited for code.
    pub(crate) fn add_blocked(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.blocked_nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, unique_kernels: usize, cache: CacheStats) -> CompilationStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CompilationStats {
            compilations: get(&self.compilations),
            hits: cache.hits(),
            misses: cache.misses,
            compile_time: Duration::from_nanos(get(&self.compile_nanoseconds)),
            unique_kernels: unique_kernels as u64,
            failures: get(&self.failures),
            fallback_contractions: get(&self.fallback_contractions),
            interpreted_steps: get(&self.interpreted_steps),
            other_plans: get(&self.other_plans),
            launch_plans: get(&self.launch_plans),
            fallbacks: get(&self.fallbacks),
            blocked: Duration::from_nanos(get(&self.blocked_nanoseconds)),
            timeouts: get(&self.timeouts),
            cache,
        }
    }
}
