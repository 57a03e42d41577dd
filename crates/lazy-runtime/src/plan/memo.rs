//! Launch plans by the values they were made for: bounded, the least recently used goes first.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_kernel::seeded::{Fault, is_on};
use lru::LruCache;
use smallvec::SmallVec;

/// The values that a plan depends on, in a fixed order.
pub(crate) type Key = SmallVec<[i64; 16]>;

/// Plans of one segment. The lock is held for a look-up, never while anything is made or run.
#[derive(Debug)]
pub(crate) struct Memo<T>(Mutex<LruCache<Key, Arc<T>>>);

impl<T> Memo<T> {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        // Not `LruCache::new`, which reserves room for all of them at once.
        let mut cache = LruCache::unbounded();
        cache.resize(capacity);
        Self(Mutex::new(cache))
    }

    pub(crate) fn get(&self, key: &[i64]) -> Option<Arc<T>> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_on(Fault::StaleLaunchPlan) {
            return cache.iter().next().map(|(_, plan)| Arc::clone(plan));
        }
        cache.get(key).cloned()
    }

    /// Keeps a plan, unless another thread was faster: then that one is the answer.
    pub(crate) fn insert(&self, key: Key, plan: T) -> Arc<T> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = cache.get(&key) {
            return Arc::clone(plan);
        }
        let plan = Arc::new(plan);
        cache.put(key, Arc::clone(&plan));
        plan
    }

    /// Puts a plan in place of whatever is there.
    pub(crate) fn replace(&self, key: Key, plan: T) -> Arc<T> {
        let plan = Arc::new(plan);
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = cache.put(key, Arc::clone(&plan));
        drop(cache);
        drop(before);
        plan
    }

    /// Something about each plan.
    pub(crate) fn map<R>(&self, mut about: impl FnMut(&Key, &T) -> R) -> Vec<R> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().map(|(key, plan)| about(key, plan)).collect()
    }

    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
