//! Memory that was given back, for whoever asks next: [`HostMemoryPool`].
//!
//! Fresh memory is cleared, or mapped page by page as it is touched; for large results that takes longer than computing
//! them. So what an executor's memory leaves behind is kept, up to a limit, and handed out again as it is: its content is
//! not defined, and its bytes are initialised. All that is had is counted, the small pieces too, which are not worth
//! keeping.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_kernel::{ExecuteError, Memory, MemoryLimits, MemoryPool, MemoryStats};

use super::host_memory::HostMemory;
use super::scratch::AlignedBytes;
use crate::error::NativeError;

/// How many pieces are kept at most.
const KEPT_PIECES: usize = 64;

/// Pieces of less are left to the system's allocator, which is quick with them.
const WORTH_KEEPING: usize = 16 << 10;

/// The memory of one executor. Clones are the same pool.
#[derive(Clone, Debug)]
pub(crate) struct HostMemoryPool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: MemoryLimits,
    /// Given back last, found first. No code runs while it is locked that could leave it half changed.
    kept: Mutex<Vec<AlignedBytes>>,
    kept_bytes: AtomicUsize,
    rented_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    rents: AtomicU64,
    reuses: AtomicU64,
    refusals: AtomicU64,
}

impl HostMemoryPool {
    /// An empty pool.
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            kept: Mutex::default(),
            kept_bytes: AtomicUsize::new(0),
            rented_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            rents: AtomicU64::new(0),
            reuses: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }))
    }

    /// At least `bytes` bytes: kept ones, if some are not much too long.
    pub(crate) fn take(&self, bytes: usize) -> Result<AlignedBytes, NativeError> {
        let shared = &*self.0;
        shared.rents.fetch_add(1, Ordering::Relaxed);
        if bytes >= WORTH_KEEPING
            && let Some(piece) = shared.take_kept(bytes)
        {
            shared.reuses.fetch_add(1, Ordering::Relaxed);
            return Ok(piece);
        }
        shared.count_in(bytes)?;
        let piece = AlignedBytes::zeroed(bytes).or_else(|_| {
            // What is kept may be what is lacking.
            self.trim(0);
            AlignedBytes::zeroed(bytes)
        });
        if piece.is_err() {
            shared.rented_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(piece?)
    }

    /// Takes memory back; what was kept longest is freed for it.
    pub(crate) fn put(&self, piece: AlignedBytes) {
        let shared = &*self.0;
        let bytes = piece.len();
        shared.rented_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let limit = shared.limits.kept_bytes.min(shared.limits.total_bytes);
        if !(WORTH_KEEPING..=limit).contains(&bytes) {
            return;
        }
        let mut kept = shared.lock();
        let freed = shared.free(&mut kept, limit - bytes, KEPT_PIECES - 1);
        shared.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        kept.push(piece);
        drop(kept);
        // Freed only now, when nobody waits.
        drop(freed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<AlignedBytes>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_kept(&self, bytes: usize) -> Option<AlignedBytes> {
        let mut kept = self.lock();
        let fits = |piece: &AlignedBytes| (bytes..=bytes.saturating_mul(2)).contains(&piece.len());
        let position = kept.iter().rposition(fits)?;
        let piece = kept.remove(position);
        self.kept_bytes.fetch_sub(piece.len(), Ordering::Relaxed);
        let rented = self.rented_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        self.note_peak(rented + piece.len());
        Some(piece)
    }

    /// Counts bytes as rented, if the limit allows it.
    fn count_in(&self, bytes: usize) -> Result<(), NativeError> {
        let limit = self.limits.total_bytes;
        let add = |rented: usize| rented.checked_add(bytes).filter(|&sum| sum <= limit);
        let counted = self
            .rented_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        let Ok(before) = counted else {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            let rented = self.rented_bytes.load(Ordering::Relaxed);
            return Err(NativeError::MemoryLimit {
                given: rented.saturating_add(bytes),
                limit,
            });
        };
        let sum = before + bytes;
        self.note_peak(sum);
        // What is kept makes room for what is needed.
        if limit != usize::MAX
            && sum.saturating_add(self.kept_bytes.load(Ordering::Relaxed)) > limit
        {
            let freed = self.free(&mut self.lock(), limit - sum, KEPT_PIECES);
            drop(freed);
        }
        Ok(())
    }

    fn note_peak(&self, rented: usize) {
        // Mostly there is nothing to note, and a look does not take the line from other threads.
        if self.peak_bytes.load(Ordering::Relaxed) < rented {
            self.peak_bytes.fetch_max(rented, Ordering::Relaxed);
        }
    }

    /// Takes the oldest pieces out until so many bytes and pieces are left at most.
    fn free(&self, kept: &mut Vec<AlignedBytes>, bytes: usize, pieces: usize) -> Vec<AlignedBytes> {
        let mut total: usize = kept.iter().map(AlignedBytes::len).sum();
        let mut n_freed = 0;
        for piece in kept.iter() {
            if total <= bytes && kept.len() - n_freed <= pieces {
                break;
            }
            total -= piece.len();
            n_freed += 1;
        }
        let freed: Vec<AlignedBytes> = kept.drain(..n_freed).collect();
        let n_bytes = freed.iter().map(AlignedBytes::len).sum();
        self.kept_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
        freed
    }
}

impl MemoryPool for HostMemoryPool {
    fn rent(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        Ok(super::memory(HostMemory::rented(self, bytes)?))
    }

    fn trim(&self, keep: usize) -> usize {
        let freed = self.0.free(&mut self.0.lock(), keep, KEPT_PIECES);
        freed.iter().map(AlignedBytes::len).sum()
    }

    fn stats(&self) -> MemoryStats {
        let shared = &*self.0;
        let mut stats = MemoryStats::default();
        stats.rented_bytes = shared.rented_bytes.load(Ordering::Relaxed);
        stats.peak_bytes = shared.peak_bytes.load(Ordering::Relaxed);
        stats.kept_bytes = shared.kept_bytes.load(Ordering::Relaxed);
        stats.rents = shared.rents.load(Ordering::Relaxed);
        stats.reuses = shared.reuses.load(Ordering::Relaxed);
        stats.refusals = shared.refusals.load(Ordering::Relaxed);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_BYTES: usize = MemoryLimits::DEFAULT.kept_bytes;

    fn pool() -> HostMemoryPool {
        HostMemoryPool::new(MemoryLimits::DEFAULT)
    }

    fn address(piece: &AlignedBytes) -> usize {
        piece.pointer().addr().get()
    }

    fn kept(pool: &HostMemoryPool) -> Vec<usize> {
        pool.0.lock().iter().map(AlignedBytes::len).collect()
    }

    /// Rented and kept bytes.
    fn bytes(pool: &HostMemoryPool) -> (usize, usize) {
        (pool.stats().rented_bytes, pool.stats().kept_bytes)
    }

    #[test]
    fn what_fits_is_handed_out_again() {
        let pool = pool();
        let piece = pool.take(100_000).unwrap();
        let first = address(&piece);
        pool.put(piece);
        let larger = pool.take(150_000).unwrap();
        assert_ne!(address(&larger), first);
        let much_smaller = pool.take(40_000).unwrap();
        assert_ne!(address(&much_smaller), first);
        let again = pool.take(60_000).unwrap();
        assert_eq!(address(&again), first);
        assert_eq!(again.len(), 100_000);
        assert_eq!(bytes(&pool), (290_000, 0));
        let stats = pool.stats();
        assert_eq!(
            (stats.rents, stats.reuses, stats.peak_bytes),
            (4, 1, 290_000)
        );
    }

    #[test]
    fn small_and_huge_pieces_are_counted_and_not_kept() {
        let pool = pool();
        for n in [100, 0, KEPT_BYTES + 1] {
            let piece = pool.take(n).unwrap();
            assert_eq!(bytes(&pool), (n, 0));
            pool.put(piece);
        }
        assert_eq!(bytes(&pool), (0, 0));
        assert_eq!(pool.stats().peak_bytes, KEPT_BYTES + 1);
    }

    #[test]
    fn the_oldest_make_room() {
        let pool = pool();
        let pieces: Vec<_> = (0..KEPT_PIECES + 3)
            .map(|_| pool.take(WORTH_KEEPING).unwrap())
            .collect();
        pieces.into_iter().for_each(|piece| pool.put(piece));
        assert_eq!(kept(&pool).len(), KEPT_PIECES);
        let large = pool.take(KEPT_BYTES).unwrap();
        pool.put(large);
        assert_eq!(kept(&pool), [KEPT_BYTES]);
        assert_eq!(bytes(&pool), (0, KEPT_BYTES));
    }

    #[test]
    fn what_is_kept_is_trimmed_the_oldest_first() {
        let pool = pool();
        let pieces: Vec<_> = [20_000, 30_000, 40_000]
            .map(|n| pool.take(n).unwrap())
            .into();
        pieces.into_iter().for_each(|piece| pool.put(piece));
        assert_eq!(pool.trim(75_000), 20_000);
        assert_eq!(kept(&pool), [30_000, 40_000]);
        assert_eq!(pool.trim(75_000), 0);
        assert_eq!(pool.trim(0), 70_000);
        assert_eq!(bytes(&pool), (0, 0));
    }

    #[test]
    fn more_than_the_limit_is_refused_and_what_is_kept_gives_way() {
        let limits = MemoryLimits::new().with_total_bytes(100_000);
        let pool = HostMemoryPool::new(limits);
        let first = pool.take(60_000).unwrap();
        let error = pool.take(50_000).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected at most 100000 bytes of memory at one time, found 110000; raise the limit, or run fewer or \
             smaller calls at a time"
        );
        assert_eq!(error.code(), "E0895");
        assert_eq!(pool.stats().refusals, 1);
        pool.put(first);
        assert_eq!(bytes(&pool), (0, 60_000));
        // Not kept for a piece of another size.
        let second = pool.take(100_000).unwrap();
        assert_eq!(bytes(&pool), (100_000, 0));
        pool.put(second);
        assert_eq!(bytes(&pool), (0, 100_000));
        assert!(pool.take(usize::MAX).is_err());
    }

    #[test]
    fn memory_that_the_system_does_not_have_is_not_counted() {
        let pool = pool();
        assert!(pool.take(isize::MAX as usize - 4096).is_err());
        assert_eq!(bytes(&pool), (0, 0));
    }

    #[test]
    fn what_is_rented_goes_back_with_its_last_handle() {
        let pool = pool();
        let memory = pool.rent(20_000).unwrap();
        let other = memory.clone();
        pool.give_back(memory);
        assert_eq!(bytes(&pool), (20_000, 0));
        drop(other);
        assert_eq!(bytes(&pool), (0, 20_000));
    }
}
