//! The in-memory tier: [`LruKernelCache`], ready-to-use values by key.
//!
//! Bounded by count and bytes; the least recently used value is evicted first, and logged with its compile time and use
//! count. Each operation holds the lock briefly; nothing is dropped or logged under it. Handling a miss is left to the
//! caller.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::bounded::{BoundedLru, LruLimits};
use crate::key::KeyDigest;
use crate::sync::lock;

/// Values in memory.
pub(super) struct LruKernelCache<V> {
    entries: Mutex<BoundedLru<KeyDigest, KernelCacheEntry<V>>>,
}

/// A value and its usage.
struct KernelCacheEntry<V> {
    value: Arc<V>,
    /// How long it took to compile, here or before a tier stored it.
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

    /// The value of a key, marked as used at `now`.
    pub(super) fn get(&self, key: KeyDigest, now: Duration) -> Option<Arc<V>> {
        let mut entries = lock(&self.entries);
        let entry = entries.get(&key)?;
        entry.last_used = now;
        entry.uses += 1;
        Some(Arc::clone(&entry.value))
    }

    /// Inserts a value that takes `bytes`, replacing the key's previous value; returns the number of other values
    /// evicted.
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

    /// Sets new limits; returns the number of values evicted.
    pub(super) fn set_limits(&self, limits: LruLimits, now: Duration) -> usize {
        let evicted = lock(&self.entries).set_limits(limits);
        note_evicted(evicted, now)
    }

    /// The number of values, and their size in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let entries = lock(&self.entries);
        (entries.len(), entries.bytes())
    }
}

/// Logs and counts evictions: evicting values that are used often and slow to compile means the limits are too low.
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
    fn entries_record_their_last_use_and_use_count() {
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
        // The least recently used value is evicted; replacement is not counted.
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
