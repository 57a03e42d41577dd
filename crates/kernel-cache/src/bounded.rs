//! A least-recently-used map bounded by count and by bytes: one type for kernels, plans and pooled memory.
//!
//! The order is the LRU crate's; this type adds the byte accounting. It takes no lock and drops nothing: evicted values
//! are returned, so the caller decides where to drop them.

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::hash::Hash;

use lru::LruCache;

/// A map that evicts its least recently used entry first.
///
/// ```
/// use kiln_kernel_cache::{BoundedLru, LruLimits};
///
/// let mut plans = BoundedLru::new(LruLimits { entries: 2, bytes: 100 });
/// plans.insert("a", 1, 40);
/// plans.insert("b", 2, 40);
/// plans.get("a");
/// let inserted = plans.insert("c", 3, 40);
/// assert_eq!(inserted.evicted, [("b", 2)]);
/// ```
#[derive(Debug)]
pub struct BoundedLru<K: Hash + Eq, V> {
    entries: LruCache<K, Weighed<V>, RandomState>,
    limits: LruLimits,
    bytes: usize,
}

/// The limits of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruLimits {
    /// At most this many entries.
    pub entries: usize,
    /// At most this many bytes, by the sizes given at insertion.
    pub bytes: usize,
}

/// The result of an insertion.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping evicted values may take time"]
pub struct Inserted<K, V> {
    /// Whether the entry was inserted; false if it alone exceeds a limit.
    pub is_kept: bool,
    /// The values removed: the previous value of the key, the least recently used entries, or the rejected entry
    /// itself.
    pub evicted: Vec<(K, V)>,
}

#[derive(Debug)]
struct Weighed<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq, V> BoundedLru<K, V> {
    /// An empty map.
    pub fn new(limits: LruLimits) -> Self {
        Self {
            entries: LruCache::unbounded_with_hasher(RandomState::new()),
            limits,
            bytes: 0,
        }
    }

    /// The value of a key; marks it as most recently used.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// The value of a key; does not change the order.
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek(key).map(|entry| &entry.value)
    }

    /// Inserts a value that takes `bytes`, and returns the values evicted for it.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) -> Inserted<K, V> {
        if self.limits.entries == 0 || bytes > self.limits.bytes {
            let mut evicted = Vec::from_iter(self.remove_entry(&key));
            evicted.push((key, value));
            return Inserted {
                is_kept: false,
                evicted,
            };
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let before = self.entries.push(key, Weighed { value, bytes });
        let mut evicted = Vec::new();
        if let Some((key, old)) = before {
            self.bytes = self.bytes.saturating_sub(old.bytes);
            evicted.push((key, old.value));
        }
        evicted.extend(self.trim());
        Inserted {
            is_kept: true,
            evicted,
        }
    }

    /// Removes an entry.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes the least recently used entry.
    pub fn pop(&mut self) -> Option<(K, V)> {
        let (key, entry) = self.entries.pop_lru()?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some((key, entry.value))
    }

    /// Sets new limits and returns the entries evicted by them.
    pub fn set_limits(&mut self, limits: LruLimits) -> Vec<(K, V)> {
        self.limits = limits;
        self.trim()
    }

    /// Empties the map and returns its entries.
    pub fn clear(&mut self) -> Vec<(K, V)> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// The limits.
    pub fn limits(&self) -> LruLimits {
        self.limits
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The total size in bytes, by the sizes given at insertion.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove_entry<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (key, entry) = self.entries.pop_entry(key)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some((key, entry.value))
    }

    fn trim(&mut self) -> Vec<(K, V)> {
        std::iter::from_fn(|| {
            let is_above =
                self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes;
            is_above.then(|| self.pop()).flatten()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn least_recently_used_entries_are_evicted_first_by_count_and_by_bytes() {
        let mut lru = BoundedLru::new(LruLimits {
            entries: 3,
            bytes: 100,
        });
        for (key, bytes) in [("a", 30), ("b", 30), ("c", 30)] {
            assert!(lru.insert(key, (), bytes).evicted.is_empty());
        }
        lru.get("a");
        assert_eq!(lru.insert("d", (), 60).evicted, [("b", ()), ("c", ())]);
        assert_eq!((lru.len(), lru.bytes()), (2, 90));
        assert_eq!(lru.insert("d", (), 10).evicted, [("d", ())]);
        assert_eq!((lru.len(), lru.bytes()), (2, 40));
        assert_eq!(lru.peek("a"), Some(&()));
        assert_eq!(lru.remove("a"), Some(()));
        assert!(!lru.is_empty());
        assert_eq!(lru.clear(), [("d", ())]);
        assert_eq!((lru.len(), lru.bytes()), (0, 0));
    }

    #[test]
    fn an_oversized_value_evicts_only_its_own_key() {
        let limits = LruLimits {
            entries: 3,
            bytes: 100,
        };
        let mut lru = BoundedLru::new(limits);
        let _ = lru.insert("a", 1, 90);
        let inserted = lru.insert("b", 2, 101);
        assert_eq!(
            (inserted.is_kept, inserted.evicted),
            (false, vec![("b", 2)])
        );
        assert_eq!((lru.len(), lru.limits()), (1, limits));
        assert_eq!(lru.insert("a", 3, 101).evicted, [("a", 1), ("a", 3)]);
        assert!(lru.is_empty());
        let nothing = LruLimits {
            entries: 0,
            bytes: 100,
        };
        assert!(lru.set_limits(nothing).is_empty());
        assert!(!lru.insert("a", 1, 1).is_kept);
    }

    proptest! {
        #[test]
        fn lru_limits_hold_and_no_entry_is_lost(
            entries in 0..5_usize,
            bytes in 0..50_usize,
            steps in prop::collection::vec((0..8_u8, 0..30_usize, 0..3_u8), 0..60),
        ) {
            let mut lru = BoundedLru::new(LruLimits { entries, bytes });
            let (mut n_in, mut n_out) = (0, 0);
            for (key, weight, what) in steps {
                match what {
                    0 => n_out += usize::from(lru.remove(&key).is_some()),
                    1 => { lru.get(&key); }
                    _ => {
                        n_in += 1;
                        n_out += lru.insert(key, weight, weight).evicted.len();
                    }
                }
                prop_assert!(lru.len() <= entries && lru.bytes() <= bytes);
                let weights = lru.entries.iter().map(|(_, entry)| entry.value);
                prop_assert_eq!(lru.bytes(), weights.sum::<usize>());
                prop_assert_eq!(lru.len(), n_in - n_out);
            }
        }
    }
}
