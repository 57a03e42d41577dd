//! State shared by the handles of a cache, and operations on it. Each holds a lock briefly, and releases it before
//! anything is decoded, stored or dropped.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, getpid};

use super::memory::LruKernelCache;
use super::{CacheOptions, Found, Source};
use crate::clock::Clock;
use crate::codec::Codec;
use crate::error::{CacheError, Failure};
use crate::failures::Failures;
use crate::flight::Flights;
use crate::key::{CacheKey, KeyDigest};
use crate::miss::{Miss, NotStored, TierMiss};
use crate::payload::{Content, Payload};
use crate::stats::Counters;
use crate::sync::lock;
use crate::tier::Tier;

pub(super) struct Inner<V, E> {
    pub(super) codec: Box<dyn Codec<V>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: CacheOptions,
    pub(super) tiers: Vec<Arc<dyn Tier>>,
    pub(super) memory: LruKernelCache<V>,
    pub(super) failures: Mutex<Failures<E>>,
    pub(super) flights: Arc<Flights<KeyDigest, Shared<V, E>>>,
    pub(super) counters: Counters,
    /// The process that created the cache.
    pub(super) process: Pid,
}

/// The result that a leader shares with its followers.
pub(super) enum Shared<V, E> {
    Value(Arc<V>),
    Failed(Arc<E>),
    Panicked(String),
}

impl<V, E> Clone for Shared<V, E> {
    fn clone(&self) -> Self {
        match self {
            Self::Value(value) => Self::Value(Arc::clone(value)),
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::Panicked(message) => Self::Panicked(message.clone()),
        }
    }
}

impl<V, E> Shared<V, E> {
    /// The result for a caller that did not compile.
    pub(super) fn into_found(self, key: &CacheKey) -> Result<Found<V>, Failure<E>> {
        match self {
            Self::Value(value) => Ok(Found {
                value,
                source: Source::Shared,
            }),
            Self::Failed(error) => Err(Failure::Compile {
                error,
                retry_in: None,
            }),
            Self::Panicked(message) => Err(Failure::Cache(CacheError::Panicked {
                key: key.clone(),
                message,
            })),
        }
    }
}

impl<V, E> Inner<V, E> {
    /// Whether this process is a forked child of the cache's creator.
    pub(super) fn is_forked(&self) -> bool {
        getpid() != self.process
    }

    pub(super) fn memory(&self) -> Option<&LruKernelCache<V>> {
        (!self.is_forked()).then_some(&self.memory)
    }

    pub(super) fn failures(&self) -> Option<MutexGuard<'_, Failures<E>>> {
        (!self.is_forked()).then(|| lock(&self.failures))
    }

    /// The value in memory, counted.
    pub(super) fn in_memory(&self, key: &CacheKey) -> Option<Arc<V>> {
        let value = self.memory()?.get(key.digest(), self.clock.now())?;
        Counters::count(&self.counters.memory_hits);
        tracing::trace!(%key, "cache hit in memory");
        Some(value)
    }

    /// Whether memory has a key; does not count as a use.
    pub(super) fn has_in_memory(&self, key: &CacheKey) -> bool {
        self.memory()
            .is_some_and(|memory| memory.contains(key.digest()))
    }

    /// The remembered failure of a key that is not due for a retry.
    pub(super) fn failure(&self, key: &CacheKey, now: Duration) -> Option<Failure<E>> {
        let (error, left) = self.failures()?.get(key.digest(), now)?;
        Some(Failure::Compile {
            error,
            retry_in: Some(left),
        })
    }

    /// Keeps a value in memory.
    pub(super) fn keep(&self, key: &CacheKey, value: &Arc<V>, compile_time: Duration) {
        if let Some(memory) = self.memory() {
            let (bytes, now) = (self.codec.bytes(value), self.clock.now());
            self.count_evicted(memory.set(key.digest(), value, bytes, compile_time, now));
        }
    }

    pub(super) fn count_evicted(&self, n_evicted: usize) {
        for _ in 0..n_evicted {
            Counters::count(&self.counters.evicted);
        }
    }

    /// The value from the first tier that has it, also stored in memory and in the tiers before it. If none has it, the
    /// caller counts the reasons.
    pub(super) fn in_tiers(&self, key: &CacheKey) -> Result<Found<V>, Vec<TierMiss>> {
        let mut misses = Vec::new();
        for (position, tier) in self.tiers.iter().enumerate() {
            match self.in_tier(&**tier, key) {
                Ok((value, compile_time, content)) => {
                    let faster = self.tiers.get(..position).unwrap_or_default();
                    self.store(faster, key, compile_time, content.content());
                    self.count_misses(&misses);
                    tracing::debug!(%key, tier = tier.name(), "cache hit");
                    let name = tier.name().to_owned();
                    let source = Source::Tier { name, misses };
                    return Ok(Found { value, source });
                }
                Err(miss) => {
                    let tier = tier.name().to_owned();
                    misses.push(TierMiss { tier, miss });
                }
            }
        }
        let reasons: Vec<String> = misses.iter().map(ToString::to_string).collect();
        tracing::debug!(%key, reasons = reasons.join("; "), "cache miss");
        Err(misses)
    }

    pub(super) fn count_misses(&self, misses: &[TierMiss]) {
        for TierMiss { miss, .. } in misses {
            self.counters.count_miss(miss.category());
        }
    }

    /// The value from one tier, also kept in memory.
    fn in_tier(
        &self,
        tier: &dyn Tier,
        key: &CacheKey,
    ) -> Result<(Arc<V>, Duration, Payload), Miss> {
        let entry = tier.get(key)?;
        match self.codec.decode(entry.payload.content()) {
            Ok(value) => {
                let value = Arc::new(value);
                self.keep(key, &value, entry.compile_time);
                Counters::count(&self.counters.tier_hits);
                Counters::add_time(&self.counters.saved_nanoseconds, entry.compile_time);
                Ok((value, entry.compile_time, entry.payload))
            }
            Err(message) => {
                tier.remove(key);
                Err(Miss::Undecodable { message })
            }
        }
    }

    /// Stores a value in every tier.
    pub(super) fn persist(&self, key: &CacheKey, value: &V, compile_time: Duration) {
        if self.tiers.is_empty() {
            return;
        }
        match self.codec.encode(value) {
            Ok(payload) => self.store(&self.tiers, key, compile_time, payload.content()),
            Err(message) => {
                self.count_not_stored(key, "memory", &NotStored::Unencodable { message })
            }
        }
    }

    fn store(&self, tiers: &[Arc<dyn Tier>], key: &CacheKey, time: Duration, content: Content<'_>) {
        for tier in tiers {
            match tier.put(key, time, content) {
                Ok(stored) => {
                    Counters::count(&self.counters.stored);
                    let evicted = &self.counters.tier_evicted;
                    evicted.fetch_add(stored.evicted, std::sync::atomic::Ordering::Relaxed);
                }
                Err(NotStored::ReadOnly) => {}
                Err(problem) => self.count_not_stored(key, tier.name(), &problem),
            }
        }
    }

    fn count_not_stored(&self, key: &CacheKey, tier: &str, problem: &NotStored) {
        Counters::count(&self.counters.not_stored);
        tracing::debug!(%key, tier, %problem, "not stored");
    }
}
