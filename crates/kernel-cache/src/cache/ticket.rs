//! [`Ticket`]: the right to compile a key, and the steps of doing so.
//!
//! The order: memory again; the tiers; the claim among processes; the tiers again, after waiting for a claim; the compile;
//! memory; the waiters; the tiers; release of the claim.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use super::inner::{Inner, Shared};
use super::nesting::{Nesting, is_nested};
use super::{Found, Source, TieredCache, Waiter};
use crate::error::{CacheError, Failure};
use crate::flight::Lead;
use crate::key::{CacheKey, KeyDigest};
use crate::miss::TierMiss;
use crate::stats::Counters;
use crate::tier::{Claim, Tier};

/// The first and the maximum interval for polling another process's compile.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// A callback notified of where a value comes from.
type FirstTold = Box<dyn FnOnce(&Source) + Send>;

/// The right to compile a key. If it is dropped unused, the waiters are notified, and one of them may take over.
pub struct Ticket<V, E> {
    cache: TieredCache<V, E>,
    key: CacheKey,
    /// `None` if there can be no waiters: in a forked child, and inside another compile.
    lead: Option<Lead<KeyDigest, Shared<V, E>>>,
    /// Notified of a found value before its waiters are.
    first_told: Option<FirstTold>,
    /// Which errors mean that the compile was given up rather than that the key failed.
    gives_up: Option<fn(&E) -> bool>,
}

/// The result of claiming a key among processes.
enum Claimed<V> {
    /// Compile; drop this once the entry is stored.
    Compile(Vec<Box<dyn Any + Send>>),
    /// Another process compiled it.
    Found(Found<V>),
    /// Another process is compiling it, and the caller's limit has passed.
    Timeout,
}

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> Ticket<V, E> {
    pub(super) fn new(
        cache: TieredCache<V, E>,
        key: CacheKey,
        lead: Option<Lead<KeyDigest, Shared<V, E>>>,
    ) -> Self {
        Self {
            cache,
            key,
            lead,
            first_told: None,
            gives_up: None,
        }
    }

    /// Adds a callback that learns where the value comes from before waiters get it, so accounts are up to date when
    /// they continue.
    #[must_use]
    pub fn first_telling(self, listener: impl FnOnce(&Source) + Send + 'static) -> Self {
        Self {
            first_told: Some(Box::new(listener)),
            ..self
        }
    }

    /// Marks errors that mean the compile was given up: they are not remembered, and a waiter takes over.
    #[must_use]
    pub fn giving_up_on(self, gives_up: fn(&E) -> bool) -> Self {
        Self {
            gives_up: Some(gives_up),
            ..self
        }
    }

    /// A handle that counts the waiters, also during the compile; `None` if no thread can wait.
    pub fn counting_waiters(&self) -> Option<impl Fn() -> usize + use<V, E>> {
        self.lead.as_ref().map(Lead::counting)
    }

    /// The key.
    pub fn key(&self) -> &CacheKey {
        &self.key
    }

    /// The number of callers that wait for it. A queued compile without waiters may be dropped.
    pub fn n_waiting(&self) -> usize {
        self.lead.as_ref().map_or(0, Lead::n_followers)
    }

    /// A waiter for this compile; `None` if no thread can wait: in a forked child, and inside another compile.
    pub fn waiter(&self) -> Option<Waiter<V, E>> {
        let follow = self.lead.as_ref()?.follow();
        let inner = Arc::clone(&self.cache.inner);
        Some(Waiter::new(inner, self.key.clone(), follow).of_leader())
    }

    /// The value if memory or a tier has it, shared with the waiters. Nothing is compiled and no other process is waited
    /// for. Otherwise `on_miss` is called, and then the waiters are notified that it was given up, so accounts are up to
    /// date when they continue.
    pub fn look_up(self, on_miss: impl FnOnce()) -> Option<Found<V>> {
        let inner = Arc::clone(&self.cache.inner);
        if let Some(value) = inner.in_memory(&self.key) {
            let source = Source::Memory;
            return Some(self.finish(Found { value, source }));
        }
        match inner.in_tiers(&self.key) {
            Ok(found) => Some(self.finish(found)),
            Err(misses) => {
                Counters::count(&inner.counters.misses);
                inner.count_misses(&misses);
                on_miss();
                None
            }
        }
    }

    /// The value: from a tier if one has it, from another process that finishes within `limit`, or compiled; then kept,
    /// shared with the waiters, and stored.
    ///
    /// # Errors
    /// The compile's own error; that it panicked; that another process took longer than the limit.
    pub fn compile(
        self,
        limit: Duration,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Found<V>, Failure<E>> {
        let is_inside = is_nested();
        let _nesting = Nesting::enter();
        let inner = Arc::clone(&self.cache.inner);
        self.begin_at(inner.clock.now());
        // The previous leader may have finished between the check of memory and the start of this lead.
        if let Some(value) = inner.in_memory(&self.key) {
            let source = Source::Memory;
            return Ok(self.finish(Found { value, source }));
        }
        let misses = match inner.in_tiers(&self.key) {
            Ok(found) => return Ok(self.finish(found)),
            Err(misses) => misses,
        };
        inner.count_misses(&misses);
        let claims = match self.claim(&inner, limit, is_inside) {
            Claimed::Compile(claims) => claims,
            Claimed::Found(found) => return Ok(self.finish(found)),
            Claimed::Timeout => {
                Counters::count(&inner.counters.timeout);
                let key = self.key.clone();
                return Err(Failure::Cache(CacheError::Timeout { key, limit }));
            }
        };
        let result = self.compile_now(&inner, misses, compile);
        drop(claims);
        result
    }

    fn compile_now(
        mut self,
        inner: &Inner<V, E>,
        misses: Vec<TierMiss>,
        compile: impl FnOnce() -> Result<V, E>,
    ) -> Result<Found<V>, Failure<E>> {
        let counters = &inner.counters;
        Counters::count(&counters.misses);
        Counters::count(&counters.compiles);
        let begin = inner.clock.now();
        self.begin_at(begin);
        let result = catch_unwind(AssertUnwindSafe(compile));
        let end = inner.clock.now();
        let time = end.saturating_sub(begin);
        Counters::add_time(&counters.compile_nanoseconds, time);
        // Dropping the lead without a result gives the compile up.
        let lead = self.lead.take();
        let tell = |shared| lead.map(|lead| lead.finish(shared));
        match result {
            Ok(Ok(value)) => {
                Counters::count(&counters.compile_ok);
                let value = Arc::new(value);
                inner.keep(&self.key, &value, time);
                if let Some(mut failures) = inner.failures() {
                    failures.forget(self.key.digest());
                }
                let source = Source::Compiled { time, misses };
                if let Some(listener) = self.first_told.take() {
                    listener(&source);
                }
                tell(Shared::Value(Arc::clone(&value)));
                inner.persist(&self.key, &value, time);
                Ok(Found { value, source })
            }
            Ok(Err(error)) if self.gives_up.is_some_and(|gives_up| gives_up(&error)) => {
                Counters::count(&counters.cancelled);
                let key = self.key.clone();
                Err(Failure::Cache(CacheError::Abandoned { key }))
            }
            Ok(Err(error)) => {
                Counters::count(&counters.compile_err);
                let error = Arc::new(error);
                if let Some(mut failures) = inner.failures() {
                    failures.note(self.key.digest(), Arc::clone(&error), end);
                }
                tell(Shared::Failed(Arc::clone(&error)));
                Err(Failure::Compile {
                    error,
                    retry_in: None,
                })
            }
            Err(panic) => {
                Counters::count(&counters.panics);
                let shared = Shared::Panicked(message_of(&*panic));
                tell(shared.clone());
                shared.into_found(&self.key)
            }
        }
    }

    /// Claims the key in every tier that supports claims, and waits for another holder.
    fn claim(&self, inner: &Inner<V, E>, limit: Duration, is_inside: bool) -> Claimed<V> {
        let mut held = Vec::new();
        for tier in &inner.tiers {
            match self.claim_in(inner, &**tier, limit, is_inside) {
                Claimed::Compile(claims) => held.extend(claims),
                other => return other,
            }
        }
        Claimed::Compile(held)
    }

    fn claim_in(
        &self,
        inner: &Inner<V, E>,
        tier: &dyn Tier,
        limit: Duration,
        is_inside: bool,
    ) -> Claimed<V> {
        let counters = &inner.counters;
        let begin = inner.clock.now();
        let (mut pause, longest) = PAUSES;
        let mut slept = Duration::ZERO;
        loop {
            match tier.try_claim(&self.key) {
                Claim::Unavailable => return Claimed::Compile(Vec::new()),
                Claim::Held(claim) => {
                    // Another process may have finished since the tiers were queried.
                    return match tier.contains(&self.key) {
                        true => self.look_again(inner, vec![claim]),
                        false => Claimed::Compile(vec![claim]),
                    };
                }
                Claim::Busy if is_inside => {
                    Counters::count(&counters.reentrant);
                    return Claimed::Compile(Vec::new());
                }
                Claim::Busy => {}
            }
            // The wait is bounded by the time slept, regardless of the clock.
            let waited = slept.max(inner.clock.now().saturating_sub(begin));
            if waited >= inner.options.trusted {
                Counters::count(&counters.takeovers);
                tracing::info!(key = %self.key, ?waited, "another process is taking too long; compiling as well");
                return Claimed::Compile(Vec::new());
            }
            if waited >= limit {
                return Claimed::Timeout;
            }
            let left = limit.min(inner.options.trusted).saturating_sub(waited);
            sleep(pause.min(left));
            slept += pause.min(left);
            pause = (2 * pause).min(longest);
            if tier.contains(&self.key)
                && let Claimed::Found(found) = self.look_again(inner, Vec::new())
            {
                return Claimed::Found(found);
            }
        }
    }

    fn look_again(&self, inner: &Inner<V, E>, claims: Vec<Box<dyn Any + Send>>) -> Claimed<V> {
        match inner.in_tiers(&self.key) {
            Ok(found) => Claimed::Found(found),
            Err(_) => Claimed::Compile(claims),
        }
    }

    /// Marks the compile as started, so its trust period begins now.
    fn begin_at(&self, now: Duration) {
        if let Some(lead) = &self.lead {
            lead.begin_at(now);
        }
    }

    fn finish(mut self, found: Found<V>) -> Found<V> {
        if let Some(listener) = self.first_told.take() {
            listener(&found.source);
        }
        if let Some(lead) = self.lead.take() {
            lead.finish(Shared::Value(Arc::clone(&found.value)));
        }
        found
    }
}

impl<V, E> fmt::Debug for Ticket<V, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ticket({})", self.key)
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
