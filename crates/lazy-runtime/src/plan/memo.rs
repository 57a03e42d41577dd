//! A memo of launch plans by the values they were built for: bounded, least recently used evicted first.

use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

use kiln_fork_lock::ForkLock;
use kiln_kernel::seeded::{Fault, is_on};
use lru::LruCache;
use smallvec::SmallVec;

/// The values that a plan depends on, in a fixed order.
pub(crate) type Key = SmallVec<[i64; 16]>;

/// Plans of one segment. The lock is held for a lookup, never while anything is made or run.
#[derive(Debug)]
pub(crate) struct Memo<T>(ForkLock<Plans<T>>);

type Plans<T> = LruCache<Key, Arc<T>, BuildHasherDefault<SizesHasher>>;

/// A fast hash of a few numbers. The map is always small, so an attacker gains nothing from colliding numbers.
#[derive(Debug, Default)]
pub(crate) struct SizesHasher(u64);

impl Hasher for SizesHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // Odd, with bits spread out: the golden ratio.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // Tables use the low bits and the highest ones.
        self.0 ^ (self.0 >> 32)
    }
}

impl<T: 'static> Memo<T> {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        Self(ForkLock::new(move || {
            // Not `LruCache::new`, which reserves space for all of them at once.
            let mut cache = LruCache::unbounded_with_hasher(BuildHasherDefault::default());
            cache.resize(capacity);
            cache
        }))
    }

    pub(crate) fn get(&self, key: &[i64]) -> Option<Arc<T>> {
        let mut cache = self.0.lock();
        if is_on(Fault::StaleLaunchPlan) {
            return cache.iter().next().map(|(_, plan)| Arc::clone(plan));
        }
        cache.get(key).cloned()
    }

    /// Keeps a plan, unless another thread was faster: then that one is returned.
    pub(crate) fn insert(&self, key: Key, plan: T) -> Arc<T> {
        let mut cache = self.0.lock();
        if let Some(plan) = cache.get(&key) {
            return Arc::clone(plan);
        }
        let plan = Arc::new(plan);
        cache.put(key, Arc::clone(&plan));
        plan
    }

    /// Replaces the current plan.
    pub(crate) fn replace(&self, key: Key, plan: T) -> Arc<T> {
        let plan = Arc::new(plan);
        let mut cache = self.0.lock();
        let before = cache.put(key, Arc::clone(&plan));
        drop(cache);
        drop(before);
        plan
    }

    /// Maps each plan.
    pub(crate) fn map<R>(&self, mut about: impl FnMut(&Key, &T) -> R) -> Vec<R> {
        let cache = self.0.lock();
        cache.iter().map(|(key, plan)| about(key, plan)).collect()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn hashes_of_neighbouring_sizes_are_well_spread() {
        let hasher = BuildHasherDefault::<SizesHasher>::default();
        let hash = |a: i64, b: i64| hasher.hash_one(Key::from_slice(&[a, b]));
        let pairs = || (0..32).flat_map(|a| (0..32).map(move |b| (a, b * 8)));
        let slots: BTreeSet<u64> = pairs().map(|(a, b)| hash(a, b) % 2048).collect();
        let tags: BTreeSet<u64> = pairs().map(|(a, b)| hash(a, b) >> 57).collect();
        // 1024 random values in 2048 slots occupy 806 on average.
        assert!(slots.len() > 700, "{}", slots.len());
        assert!(tags.len() > 100, "{}", tags.len());
        assert_ne!(hasher.hash_one("abc"), hasher.hash_one("abd"));
    }
}
