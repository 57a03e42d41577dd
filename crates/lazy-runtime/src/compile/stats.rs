//! Counters of a runtime's compiles, and of every deviation from the plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_kernel_cache::CacheStats;

use super::budget::CompileBudget;
use super::packed::PackCounters;

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
    /// Calls that failed because code was not there within the limit, or because all they did took too long.
    pub timeouts: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Constants packed for kernels.
    pub constants_packed: u64,
    /// Constants that a store had so.
    pub constants_loaded: u64,
    /// Those that were stored.
    pub constants_stored: u64,
    /// Those that could not be stored.
    pub constants_not_stored: u64,
    /// Variants for sizes that come often that were asked for.
    pub variants: u64,
    /// Those of them that won over the generic kernel and are used.
    pub variants_kept: u64,
    /// Those that did not win, or could not be had.
    pub variants_dropped: u64,
    /// Variants that were not made because a kernel or the process has as many as it may have.
    pub variants_refused: u64,
    /// The time that may go into compiling, where it is limited.
    pub compile_budget: Option<Duration>,
    /// How much of it is spent, by all runtimes that share it.
    pub compile_budget_spent: Duration,
    /// How often a kernel was not compiled because it is spent.
    pub over_budget: u64,
    /// What the cache of kernels did.
    pub cache: CacheStats,
}

impl CompilationStats {
    /// Takes over what was done with constants.
    pub(crate) fn add_constants(&mut self, counters: &PackCounters) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.constants_packed = get(&counters.packed);
        self.constants_loaded = get(&counters.loaded);
        self.constants_stored = get(&counters.stored);
        self.constants_not_stored = get(&counters.not_stored);
    }

    /// Takes over what may be spent on compiling, and what is.
    pub(crate) fn add_budget(&mut self, budget: &CompileBudget) {
        if budget.limit() < Duration::MAX {
            self.compile_budget = Some(budget.limit());
        }
        self.compile_budget_spent = budget.spent();
    }

    /// Takes over what became of variants: asked for, kept, dropped, refused.
    pub(crate) fn add_variants(&mut self, [asked, kept, dropped, refused]: [u64; 4]) {
        self.variants = asked;
        self.variants_kept = kept;
        self.variants_dropped = dropped;
        self.variants_refused = refused;
    }

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
    pub(crate) cancelled: AtomicU64,
    pub(crate) over_budget: AtomicU64,
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
