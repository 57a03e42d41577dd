//! Counters of a runtime's compiles, and of every deviation from the plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_kernel_cache::CacheStats;

use super::budget::CompileBudget;
use super::packed::PackCounters;

/// Counters of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompilationStats {
    /// Compiles, including failed ones.
    pub compilations: u64,
    /// How often a requested kernel was found.
    pub hits: u64,
    /// How often a requested kernel was not found.
    pub misses: u64,
    /// Time spent compiling, summed over threads.
    pub compile_time: Duration,
    /// Kernels in memory, each counted once regardless of its variants.
    pub unique_kernels: u64,
    /// Compiles that failed.
    pub failures: u64,
    /// Contractions that were left to plain loops.
    pub fallback_contractions: u64,
    /// Steps that the interpreter computed.
    pub interpreted_steps: u64,
    /// Plans made because a plan fact did not hold.
    pub other_plans: u64,
    /// Launch plans made: new combinations of sizes.
    pub launch_plans: u64,
    /// Steps whose code was not ready in time, so that they were interpreted; among the interpreted steps.
    pub fallbacks: u64,
    /// Time that calls waited for code, summed over threads.
    pub blocked: Duration,
    /// Calls that failed because code was not ready within the limit, or because they took too long.
    pub timeouts: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Constants packed for kernels.
    pub constants_packed: u64,
    /// Packed constants found in a store.
    pub constants_loaded: u64,
    /// Packed constants that were stored.
    pub constants_stored: u64,
    /// Packed constants that could not be stored.
    pub constants_not_stored: u64,
    /// Requested variants for frequent sizes.
    pub variants: u64,
    /// Variants that won over the generic kernel and are used.
    pub variants_kept: u64,
    /// Variants that did not win, or could not be made.
    pub variants_dropped: u64,
    /// Variants that were not made because a kernel or the process has reached its limit.
    pub variants_refused: u64,
    /// The compile-time budget, if there is one.
    pub compile_budget: Option<Duration>,
    /// How much of the budget is spent, by all runtimes that share it.
    pub compile_budget_spent: Duration,
    /// How often a kernel was not compiled because the budget is spent.
    pub over_budget: u64,
    /// The counters of the kernel cache.
    pub cache: CacheStats,
}

impl CompilationStats {
    /// Copies the counters of constants.
    pub(crate) fn add_constants(&mut self, counters: &PackCounters) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.constants_packed = get(&counters.packed);
        self.constants_loaded = get(&counters.loaded);
        self.constants_stored = get(&counters.stored);
        self.constants_not_stored = get(&counters.not_stored);
    }

    /// Copies the compile-time budget and its use.
    pub(crate) fn add_budget(&mut self, budget: &CompileBudget) {
        if budget.limit() < Duration::MAX {
            self.compile_budget = Some(budget.limit());
        }
        self.compile_budget_spent = budget.spent();
    }

    /// Copies the counters of variants: requested, kept, dropped, refused.
    pub(crate) fn add_variants(&mut self, [asked, kept, dropped, refused]: [u64; 4]) {
        self.variants = asked;
        self.variants_kept = kept;
        self.variants_dropped = dropped;
        self.variants_refused = refused;
    }

    /// The fraction of requests that found their kernel; 0 if there were no requests.
    pub fn hit_rate(&self) -> f64 {
        let requests = self.hits + self.misses;
        if requests == 0 {
            0.0
        } else {
            self.hits as f64 / requests as f64
        }
    }
}

/// The same counters, updated concurrently.
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
    pub(crate) cancelled: AtomicU64,
    pub(crate) over_budget: AtomicU64,
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a call's wait for code.
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
            cancelled: get(&self.cancelled),
            constants_packed: 0,
            constants_loaded: 0,
            constants_stored: 0,
            constants_not_stored: 0,
            variants: 0,
            variants_kept: 0,
            variants_dropped: 0,
            variants_refused: 0,
            compile_budget: None,
            compile_budget_spent: Duration::ZERO,
            over_budget: get(&self.over_budget),
            cache,
        }
    }
}
