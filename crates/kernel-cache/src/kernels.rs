//! Kernels by the shapes they serve: the [`KernelCache`] trait and the one in memory, [`LruKernelCache`].
//!
//! A kernel compiled for a more general signature serves a more special one: of those that cover what is asked for, the
//! most special answers. A kernel never answers for shapes that its signature does not cover.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_fork_lock::ForkLock;

use crate::bounded::{BoundedLru, LruLimits};
use crate::clock::Clock;
use crate::signature::ShapeSignature;
use crate::stats::{CacheStats, Counters};

/// Kernels by signature.
pub trait KernelCache<K>: Send + Sync {
    /// The kernel that serves a signature best.
    fn get(&self, signature: &ShapeSignature) -> Option<Arc<KernelCacheEntry<K>>>;
    /// Puts a kernel under its signature, in place of what is there.
    fn set(&self, signature: &ShapeSignature, kernel: K, compile_time: Duration);
    /// Whether there is a kernel under exactly this signature.
    fn contains(&self, signature: &ShapeSignature) -> bool;
    /// Removes the kernel under exactly this signature; says whether there was one.
    fn remove(&self, signature: &ShapeSignature) -> bool;
    /// Removes every kernel. Those in use live on until nothing uses them.
    fn clear(&self);
    /// What happened so far.
    fn stats(&self) -> CacheStats;
}

/// A kernel in a cache.
#[derive(Debug)]
pub struct KernelCacheEntry<K> {
    signature: ShapeSignature,
    kernel: K,
    compile_time: Duration,
    /// Nanoseconds of the cache's clock.
    last_used: AtomicU64,
    uses: AtomicU64,
}

/// Kernels in memory, bounded by count and bytes; what was used longest ago goes.
pub struct LruKernelCache<K> {
    kernels: ForkLock<Kernels<K>>,
    clock: Arc<dyn Clock>,
    bytes_of: fn(&K) -> usize,
    counters: Counters,
}

struct Kernels<K> {
    entries: BoundedLru<ShapeSignature, Arc<KernelCacheEntry<K>>>,
    /// The signatures that are there, by operation.
    by_operation: HashMap<String, Vec<ShapeSignature>>,
}

impl<K> KernelCacheEntry<K> {
    pub(crate) fn new(signature: ShapeSignature, kernel: K, compile_time: Duration) -> Self {
        Self {
            signature,
            kernel,
            compile_time,
            last_used: AtomicU64::new(0),
            uses: AtomicU64::new(0),
        }
    }

    /// What it was compiled for.
    pub fn signature(&self) -> &ShapeSignature {
        &self.signature
    }

    /// The kernel.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    /// How long compiling it took.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// When it was last used, by the cache's clock.
    pub fn last_used(&self) -> Duration {
        Duration::from_nanos(self.last_used.load(Ordering::Relaxed))
    }

    /// How often it was used.
    pub fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(crate) fn use_at(&self, now: Duration) {
        let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.last_used.store(nanoseconds, Ordering::Relaxed);
        self.uses.fetch_add(1, Ordering::Relaxed);
    }
}

impl<K> LruKernelCache<K> {
    /// An empty cache; `bytes_of` says what memory a kernel takes.
    pub fn new(limits: LruLimits, bytes_of: fn(&K) -> usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            kernels: ForkLock::new(move || Kernels {
                entries: BoundedLru::new(limits),
                by_operation: HashMap::new(),
            }),
            clock,
            bytes_of,
            counters: Counters::default(),
        }
    }

    /// What would go next, first the one used longest ago.
    pub fn eviction_candidates(&self, most: usize) -> Vec<Arc<KernelCacheEntry<K>>> {
        let kernels = self.kernels.lock();
        let candidates = kernels.entries.eviction_candidates();
        candidates
            .take(most)
            .map(|(_, entry)| Arc::clone(entry))
            .collect()
    }

    /// Counts from nothing again.
    pub fn reset_stats(&self) {
        self.counters.reset();
    }
}

impl<K: Send + Sync> KernelCache<K> for LruKernelCache<K> {
    fn get(&self, signature: &ShapeSignature) -> Option<Arc<KernelCacheEntry<K>>> {
        let entry = self.kernels.lock().get(signature);
        match &entry {
            Some(entry) => {
                Counters::count(&self.counters.memory_hits);
                entry.use_at(self.clock.now());
                tracing::trace!(%signature, by = %entry.signature, "kernel hit");
            }
            None => {
                Counters::count(&self.counters.misses);
                tracing::debug!(%signature, "kernel miss");
            }
        }
        entry
    }

    fn set(&self, signature: &ShapeSignature, kernel: K, compile_time: Duration) {
        let bytes = (self.bytes_of)(&kernel);
        let entry = Arc::new(KernelCacheEntry::new(
            signature.clone(),
            kernel,
            compile_time,
        ));
        Counters::count(&self.counters.compiles);
        Counters::add_time(&self.counters.compile_nanoseconds, compile_time);
        let evicted = self.kernels.lock().insert(entry, bytes);
        for entry in evicted {
            if entry.signature != *signature {
                Counters::count(&self.counters.evicted);
            }
        }
    }

    fn contains(&self, signature: &ShapeSignature) -> bool {
        self.kernels.lock().entries.peek(signature).is_some()
    }

    fn remove(&self, signature: &ShapeSignature) -> bool {
        let removed = self.kernels.lock().remove(signature);
        removed.is_some()
    }

    fn clear(&self) {
        let mut kernels = self.kernels.lock();
        kernels.by_operation.clear();
        let entries = kernels.entries.clear();
        drop(kernels);
        drop(entries);
    }

    fn stats(&self) -> CacheStats {
        let kernels = self.kernels.lock();
        self.counters
            .snapshot(kernels.entries.len(), kernels.entries.bytes())
    }
}

impl<K> Kernels<K> {
    fn get(&mut self, signature: &ShapeSignature) -> Option<Arc<KernelCacheEntry<K>>> {
        if let Some(entry) = self.entries.get(signature) {
            return Some(Arc::clone(entry));
        }
        let known = self.by_operation.get(signature.operation())?;
        let best = best_cover(known, signature)?;
        self.entries.get(best).map(Arc::clone)
    }

    fn insert(
        &mut self,
        entry: Arc<KernelCacheEntry<K>>,
        bytes: usize,
    ) -> Vec<Arc<KernelCacheEntry<K>>> {
        let signature = entry.signature.clone();
        let inserted = self.entries.insert(signature.clone(), entry, bytes);
        for (gone, _) in &inserted.evicted {
            self.unlist(gone);
        }
        if inserted.is_kept {
            let known = self
                .by_operation
                .entry(signature.operation().to_owned())
                .or_default();
            known.push(signature);
        }
        let evicted = inserted.evicted.into_iter();
        evicted.map(|(_, entry)| entry).collect()
    }

    fn remove(&mut self, signature: &ShapeSignature) -> Option<Arc<KernelCacheEntry<K>>> {
        self.unlist(signature);
        self.entries.remove(signature)
    }

    fn unlist(&mut self, signature: &ShapeSignature) {
        if let Some(known) = self.by_operation.get_mut(signature.operation()) {
            known.retain(|other| other != signature);
            if known.is_empty() {
                self.by_operation.remove(signature.operation());
            }
        }
    }
}

impl<K> std::fmt::Debug for LruKernelCache<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LruKernelCache")
            .finish_non_exhaustive()
    }
}

/// The most special of the signatures that cover one.
pub(crate) fn best_cover<'a>(
    known: impl IntoIterator<Item = &'a ShapeSignature>,
    signature: &ShapeSignature,
) -> Option<&'a ShapeSignature> {
    known
        .into_iter()
        .filter(|other| other.covers(signature))
        .max_by_key(|other| (other.specificity(), other.hash()))
}
