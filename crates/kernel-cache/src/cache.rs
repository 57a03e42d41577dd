//! [`TieredCache`]: memory in front of tiers, with one compile per key, and a reason for every miss.
//!
//! No lock is held while anything is compiled, read, written, decoded, logged or dropped. A forked child cannot use the
//! locks of its parent, which may be held forever: it bypasses memory and single flight, and only uses tiers and
//! compiles.

mod inner;
mod memory;
mod nesting;
mod options;
mod ticket;
mod waiter;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::getpid;

use crate::bounded::LruLimits;
use crate::clock::Clock;
use crate::codec::Codec;
use crate::error::{CacheError, Failure};
use crate::explain::{MissReport, StoredHeads};
use crate::failures::Failures;
use crate::flight::{Flights, Joined};
use crate::key::CacheKey;
use crate::miss::TierMiss;
use crate::stats::{CacheStats, Counters};
use crate::tier::Tier;

use inner::Inner;
use memory::LruKernelCache;
use nesting::is_nested;

pub use options::CacheOptions;
pub use ticket::Ticket;
pub use waiter::{Canceller, Waiter};

/// The maximum number of heads of stored entries read for an explanation.
const HEADS: usize = 4096;

/// Values by key: in memory, in tiers, or compiled. A handle; clones share everything.
pub struct TieredCache<V, E> {
    inner: Arc<Inner<V, E>>,
}

/// A value and where it came from.
#[derive(Debug)]
pub struct Found<V> {
    /// The value.
    pub value: Arc<V>,
    /// Its source.
    pub source: Source,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// It was in memory.
    Memory,
    /// A tier had it.
    Tier {
        /// The tier's name.
        name: String,
        /// The misses of the tiers before it.
        misses: Vec<TierMiss>,
    },
    /// Another thread compiled it in the meantime.
    Shared,
    /// It was compiled now.
    Compiled {
        /// How long that took.
        time: Duration,
        /// The misses of the tiers.
        misses: Vec<TierMiss>,
    },
}

/// The next step for a key.
#[derive(Debug)]
pub enum Begin<V, E> {
    /// Use it.
    Ready(Found<V>),
    /// Compile it, here or on another thread.
    Lead(Ticket<V, E>),
    /// Another caller compiles it: wait for it, or continue without it.
    Follow(Waiter<V, E>),
    /// It failed before, and is not due for a retry yet.
    Failed(Failure<E>),
}

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> TieredCache<V, E> {
    /// An empty memory without tiers.
    pub fn new(
        codec: impl Codec<V> + 'static,
        clock: Arc<dyn Clock>,
        options: CacheOptions,
    ) -> Self {
        Self::with_tiers(codec, clock, options, Vec::new())
    }

    /// An empty memory in front of tiers, the fastest first.
    pub fn with_tiers(
        codec: impl Codec<V> + 'static,
        clock: Arc<dyn Clock>,
        options: CacheOptions,
        tiers: Vec<Arc<dyn Tier>>,
    ) -> Self {
        let failures = Failures::new(
            options.retry_first,
            options.retry_most,
            options.remembered_failures,
        );
        let inner = Inner {
            codec: Box::new(codec),
            clock,
            options,
            tiers,
            memory: LruKernelCache::new(options.memory),
            failures: Mutex::new(failures),
            flights: Arc::new(Flights::new()),
            counters: Counters::default(),
            process: getpid(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The value of a key, compiled if no store has it. Of concurrent callers, in any number of threads and processes, one
    /// compiles; the others wait for at most `limit`, or until the compile is no longer [trusted](CacheOptions::trusted) to
    /// finish. The limit does not apply to the caller's own compile.
    ///
    /// # Errors
    /// The compile's own error, new or remembered; another caller's compile panicked or takes too long.
    pub fn get_or_compile(
        &self,
        key: &CacheKey,
        limit: Duration,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Found<V>, Failure<E>> {
        let begin = self.inner.clock.now();
        let mut left = limit;
        loop {
            match self.begin(key) {
                Begin::Ready(found) => return Ok(found),
                Begin::Failed(failure) => return Err(failure),
                Begin::Lead(ticket) => return ticket.compile(left, compile),
                Begin::Follow(waiter) => match waiter.wait(left) {
                    Err(Failure::Cache(CacheError::Abandoned { .. })) => {
                        let gone = self.inner.clock.now().saturating_sub(begin);
                        left = limit.saturating_sub(gone);
                    }
                    result => return result,
                },
            }
        }
    }

    /// The next step for a key. Checks only memory, and never waits.
    pub fn begin(&self, key: &CacheKey) -> Begin<V, E> {
        let inner = &self.inner;
        if let Some(value) = inner.in_memory(key) {
            return Begin::Ready(Found {
                value,
                source: Source::Memory,
            });
        }
        let now = inner.clock.now();
        if let Some(failure) = inner.failure(key, now) {
            Counters::count(&inner.counters.remembered_failures);
            return Begin::Failed(failure);
        }
        let lead = |lead| Begin::Lead(Ticket::new(self.clone(), key.clone(), lead));
        if inner.is_forked() {
            return lead(None);
        }
        match inner.flights.join(key.digest(), now, inner.options.trusted) {
            Joined::Lead(first) => {
                if first.is_takeover {
                    Counters::count(&inner.counters.takeovers);
                }
                lead(Some(first))
            }
            // A compiling thread that waits could deadlock with the compile it waits for.
            Joined::Follow(_) if is_nested() => {
                Counters::count(&inner.counters.reentrant);
                lead(None)
            }
            Joined::Follow(follow) => {
                Begin::Follow(Waiter::new(Arc::clone(inner), key.clone(), follow))
            }
        }
    }

    /// The value of a key if memory or a tier has it; otherwise the tiers' reasons. Never waits.
    ///
    /// # Errors
    /// The reason of each tier.
    pub fn lookup(&self, key: &CacheKey) -> Result<Found<V>, Vec<TierMiss>> {
        if let Some(value) = self.inner.in_memory(key) {
            return Ok(Found {
                value,
                source: Source::Memory,
            });
        }
        self.inner.in_tiers(key).inspect_err(|misses| {
            Counters::count(&self.inner.counters.misses);
            self.inner.count_misses(misses);
        })
    }

    /// The value of a key if memory has it.
    pub fn get(&self, key: &CacheKey) -> Option<Arc<V>> {
        self.inner.in_memory(key)
    }

    /// Puts a value into memory and every tier.
    pub fn set(&self, key: &CacheKey, value: V, compile_time: Duration) -> Arc<V> {
        let value = Arc::new(value);
        self.inner.keep(key, &value, compile_time);
        self.inner.persist(key, &value, compile_time);
        value
    }

    /// Whether memory has a key, or a tier has an entry for it.
    pub fn contains(&self, key: &CacheKey) -> bool {
        self.inner.has_in_memory(key) || self.inner.tiers.iter().any(|tier| tier.contains(key))
    }

    /// Removes a key from memory, every tier, and the failures.
    pub fn remove(&self, key: &CacheKey) {
        if let Some(memory) = self.inner.memory() {
            memory.remove(key.digest());
        }
        if let Some(mut failures) = self.inner.failures() {
            failures.forget(key.digest());
        }
        self.inner.tiers.iter().for_each(|tier| tier.remove(key));
    }

    /// Clears memory and failures. Values in use stay alive; tiers keep their entries.
    pub fn clear_memory(&self) {
        if let Some(memory) = self.inner.memory() {
            memory.clear();
        }
        self.forget_failures();
    }

    /// The time until a failed compile is retried; `None` if there was none, or a retry is due.
    pub fn retry_in(&self, key: &CacheKey) -> Option<Duration> {
        match self.inner.failure(key, self.inner.clock.now())? {
            Failure::Compile { retry_in, .. } => retry_in,
            Failure::Cache(_) => None,
        }
    }

    /// Clears failures, so every key is retried.
    pub fn forget_failures(&self) {
        if let Some(mut failures) = self.inner.failures() {
            failures.clear();
        }
    }

    /// Sets new memory limits.
    pub fn set_memory_limits(&self, limits: LruLimits) {
        if let Some(memory) = self.inner.memory() {
            let now = self.inner.clock.now();
            self.inner.count_evicted(memory.set_limits(limits, now));
        }
    }

    /// A snapshot of the tiers, to explain misses with. Reads the heads of stored entries.
    pub fn stored_heads(&self) -> StoredHeads {
        let heads = self.inner.tiers.iter().flat_map(|tier| {
            let heads = tier.heads(HEADS);
            heads.into_iter().map(|head| (tier.name().to_owned(), head))
        });
        StoredHeads(heads.collect())
    }

    /// The number of keys being compiled.
    pub fn n_compiling(&self) -> usize {
        match self.inner.is_forked() {
            true => 0,
            false => self.inner.flights.len(),
        }
    }

    /// The statistics so far.
    pub fn stats(&self) -> CacheStats {
        let size = self.inner.memory().map(LruKernelCache::size);
        let (kernels, bytes) = size.unwrap_or_default();
        self.inner.counters.snapshot(kernels, bytes)
    }

    /// Resets the statistics.
    pub fn reset_stats(&self) {
        self.inner.counters.reset();
    }
}

impl<V: Send + Sync + 'static, E: fmt::Display + Send + Sync + 'static> TieredCache<V, E> {
    /// Why a key would be compiled now. Reads the heads of stored entries: for diagnostics, not for every call. Call it
    /// before the compile; after it the new entry is found.
    pub fn explain(&self, key: &CacheKey) -> MissReport {
        let inner = &self.inner;
        let is_in_memory = inner.has_in_memory(key);
        let mut report = MissReport {
            key: key.clone(),
            is_in_memory,
            tiers: Vec::new(),
            found_in: None,
            failure: None,
            nearest: None,
        };
        if is_in_memory {
            return report;
        }
        for tier in &inner.tiers {
            let name = tier.name().to_owned();
            match tier.get(key) {
                Ok(_) => {
                    report.found_in = Some(name);
                    return report;
                }
                Err(miss) => report.tiers.push(TierMiss { tier: name, miss }),
            }
        }
        let failure = inner.failure(key, inner.clock.now());
        report.failure = failure.map(|failure| failure.to_string());
        report.nearest = self.stored_heads().nearest(key);
        report
    }
}

impl<V, E> Clone for TieredCache<V, E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<V, E> fmt::Debug for TieredCache<V, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tiers: Vec<&str> = self.inner.tiers.iter().map(|tier| tier.name()).collect();
        let mut shown = formatter.debug_struct("TieredCache");
        shown.field("tiers", &tiers).finish_non_exhaustive()
    }
}
