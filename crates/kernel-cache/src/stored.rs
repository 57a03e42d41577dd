//! Kernels by the shapes they serve, in a tier: [`StoredKernelCache`]. Bytes through a codec; nothing is kept in memory
//! but the signatures that were stored or asked for here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_fork_lock::ForkLock;

use crate::codec::Codec;
use crate::kernels::{KernelCache, KernelCacheEntry, best_cover};
use crate::key::KeyDigest;
use crate::miss::NotStored;
use crate::signature::ShapeSignature;
use crate::stats::{CacheStats, Counters};
use crate::tier::Tier;

/// Kernels in a tier, by signature. It has no clock: an entry that it hands out is a new one, used once.
pub struct StoredKernelCache<K> {
    tier: Arc<dyn Tier>,
    codec: Box<dyn Codec<K>>,
    /// Signatures that may be in the tier.
    known: ForkLock<BTreeMap<KeyDigest, ShapeSignature>>,
    counters: Counters,
}

impl<K> StoredKernelCache<K> {
    /// The kernels in a tier. `known` are signatures that others may have stored there: those alone, and the ones
    /// stored here, can serve a more special one.
    pub fn new(
        tier: Arc<dyn Tier>,
        codec: impl Codec<K> + 'static,
        known: impl IntoIterator<Item = ShapeSignature>,
    ) -> Self {
        let known = known
            .into_iter()
            .map(|signature| (signature.hash(), signature))
            .collect::<BTreeMap<_, _>>();
        Self {
            tier,
            codec: Box::new(codec),
            known: ForkLock::new(move || known.clone()),
            counters: Counters::default(),
        }
    }

    /// The kernel under exactly this signature.
    fn read(&self, signature: &ShapeSignature) -> Option<KernelCacheEntry<K>> {
        let key = signature.key();
        match self.tier.get(&key) {
            Ok(entry) => match self.codec.decode(&entry.payload) {
                Ok(kernel) => {
                    Counters::add_time(&self.counters.saved_nanoseconds, entry.compile_time);
                    let time = entry.compile_time;
                    Some(KernelCacheEntry::new(signature.clone(), kernel, time))
                }
                Err(message) => {
                    Counters::count(&self.counters.corrupt);
                    tracing::debug!(%signature, message, "kernel cannot be used");
                    self.tier.remove(&key);
                    None
                }
            },
            Err(miss) => {
                self.counters.count_miss(miss.category());
                tracing::debug!(%signature, %miss, "kernel miss");
                None
            }
        }
    }

    fn store(&self, key: &crate::CacheKey, kernel: &K, time: Duration) -> Result<u64, NotStored> {
        let content = self
            .codec
            .encode(kernel)
            .map_err(|message| NotStored::Unencodable { message })?;
        let stored = self.tier.put(key, time, &content)?;
        Ok(stored.evicted)
    }
}

impl<K: Send + Sync> KernelCache<K> for StoredKernelCache<K> {
    fn get(&self, signature: &ShapeSignature) -> Option<Arc<KernelCacheEntry<K>>> {
        let general = || {
            let known = self.known.lock();
            let others = known.values().filter(|other| *other != signature);
            best_cover(others, signature).cloned()
        };
        let entry = self
            .read(signature)
            .or_else(|| general().and_then(|general| self.read(&general)));
        match entry {
            Some(entry) => {
                Counters::count(&self.counters.tier_hits);
                entry.use_at(Duration::ZERO);
                Some(Arc::new(entry))
            }
            None => {
                Counters::count(&self.counters.misses);
                None
            }
        }
    }

    fn set(&self, signature: &ShapeSignature, kernel: K, compile_time: Duration) {
        Counters::count(&self.counters.compiles);
        Counters::add_time(&self.counters.compile_nanoseconds, compile_time);
        match self.store(&signature.key(), &kernel, compile_time) {
            Ok(evicted) => {
                Counters::count(&self.counters.stored);
                for _ in 0..evicted {
                    Counters::count(&self.counters.tier_evicted);
                }
                self.known
                    .lock()
                    .insert(signature.hash(), signature.clone());
            }
            Err(problem) => {
                Counters::count(&self.counters.not_stored);
                tracing::debug!(%signature, %problem, "kernel not stored");
            }
        }
    }

    fn contains(&self, signature: &ShapeSignature) -> bool {
        self.tier.contains(&signature.key())
    }

    fn remove(&self, signature: &ShapeSignature) -> bool {
        let was_there = self.contains(signature);
        self.tier.remove(&signature.key());
        self.known.lock().remove(&signature.hash());
        was_there
    }

    fn clear(&self) {
        let known = std::mem::take(&mut *self.known.lock());
        known
            .values()
            .for_each(|signature| self.tier.remove(&signature.key()));
    }

    fn stats(&self) -> CacheStats {
        self.counters.snapshot(self.known.lock().len(), 0)
    }
}

impl<K> std::fmt::Debug for StoredKernelCache<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StoredKernelCache")
            .field("tier", &self.tier.name())
            .finish_non_exhaustive()
    }
}
