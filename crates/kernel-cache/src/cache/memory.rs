//! The tier in memory: [`LruKernelCache`], values that are ready to be used, by key.
//!
//! It is bounded by count and bytes; what was used longest ago goes first, and what has to go is logged with what it was
//! worth. Each step takes the lock for a moment; nothing is dropped or logged while it is held. Not here: what is to be done
//! where a key is missing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::bounded::{BoundedLru, LruLimits};
use crate::key::KeyDigest;
use crate::sync::lock;

/// Values in memory.
pub(super) struct LruKernelCache<V> {
    entries: Mutex<BoundedLru<KeyDigest, KernelCacheEntry<V>>>,
}

/// A value and what is known of its use.
struct KernelCacheEntry<V> {
    value: Arc<V>,
    /// How long it took to compile, here or wherever a tier has it from.
    compile_time: Duration,
    /// By the cache's clock.
    last_used: Duration,
    uses: u64,
}

impl<V> LruKernelCache<V> {
    pub(super) fn new(limits: LruLimits) -> Self {
        Self {
            entries: Mutex::new(BoundedLru::new(limits)),
        }
    }

    /// The value of a key, which is then used at `now`.
    pub(super) fn get(&self, key: KeyDigest, now: Duration) -> Option<Arc<V>> {
        let mut entries = lock(&self.entries);
        let entry = entries.get(&key)?;
        entry.last_used = now;
        entry.uses += 1;
        Some(Arc::clone(&entry.value))
    }

    /// Puts a value that takes `bytes` under a key, in place of what is there; returns how many others had to go.
    pub(super) fn set(
        &self,
        key: KeyDigest,
        value: &Arc<V>,
        bytes: usize,
        compile_time: Duration,
        now: Duration,
    ) -> usize {
        let entry = KernelCacheEntry {
            value: Arc::clone(value),
            compile_time,
            last_used: now,
            uses: 0,
        };
        let inserted = lock(&self.entries).insert(key, entry, bytes);
        let evicted = inserted.evicted.into_iter();
        // Another value of the same key was replaced, not evicted.
        let others = evicted.filter(|(other, _)| *other != key);
        note_evicted(others, now)
    }

    pub(super) fn contains(&self, key: KeyDigest) -> bool {
        lock(&self.entries).peek(&key).is_some()
    }

    pub(super) fn remove(&self, key: KeyDigest) {
        let removed = lock(&self.entries).remove(&key);
        drop(removed);
    }

    pub(super) fn clear(&self) {
        let removed = lock(&self.entries).clear();
        drop(removed);
    }

    /// Other limits; returns how many values are above them and had to go.
    pub(super) fn set_limits(&self, limits: LruLimits, now: Duration) -> usize {
        let evicted = lock(&self.entries).set_limits(limits);
        note_evicted(evicted, now)
    }

    /// How many values there are, and the bytes that they take.
    pub(super) fn size(&self) -> (usize, usize) {
        let entries = lock(&self.entries);
        (entries.len(), entries.bytes())
    }
}

/// Says what had to go, and counts it: values that are used often and are long to compile mean that limits are too low.
fn note_evicted<V>(
    evicted: impl IntoIterator<Item = (KeyDigest, KernelCacheEntry<V>)>,
    now: Duration,
) -> usize {
    let note = |(key, entry): (KeyDigest, KernelCacheEntry<V>)| {
        let KernelCacheEntry {
            compile_time, uses, ..
        } = entry;
        let idle = now.saturating_sub(entry.last_used);
        tracing::debug!(key = key.short(), uses, ?idle, ?compile_time, "evicted");
    };
    evicted.into_iter().map(note).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_last_use_and_how_often_they_were_used() {
        let cache = LruKernelCache::new(LruLimits {
            entries: 2,
            bytes: 100,
        });
        let key = |name: &str| KeyDigest::of(name.as_bytes());
        let at = Duration::from_secs;
        for name in ["a", "b"] {
            assert_eq!(cache.set(key(name), &Arc::new(()), 10, at(5), at(1)), 0);
        }
        for now in [2, 3] {
            assert!(cache.get(key("a"), at(now)).is_some());
        }
        {
            let entries = lock(&cache.entries);
            let of = |name| {
                let entry = entries.peek(&key(name));
                entry.map(|entry| (entry.uses, entry.last_used, entry.compile_time))
            };
            assert_eq!(of("a"), Some((2, at(3), at(5))));
            assert_eq!(of("b"), Some((0, at(1), at(5))));
        }
        // What was used longest ago goes; what is replaced is not counted.
        assert_eq!(cache.set(key("c"), &Arc::new(()), 10, at(5), at(4)), 1);
        assert_eq!(cache.set(key("c"), &Arc::new(()), 20, at(5), at(4)), 0);
        assert!(!cache.contains(key("b")) && cache.contains(key("a")));
        assert_eq!(cache.size(), (2, 30));
        let none = LruLimits {
            entries: 0,
            bytes: 0,
        };
        assert_eq!(cache.set_limits(none, at(5)), 2);
        assert_eq!(cache.size(), (0, 0));
    }
}
