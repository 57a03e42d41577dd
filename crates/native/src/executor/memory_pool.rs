//! The pool of returned memory: [`HostMemoryPool`].
//!
//! Fresh memory is cleared, or mapped page by page as it is touched; for large results that takes longer than computing
//! them. So returned memory of an executor is kept, up to a limit, and reused without clearing: its content is
//! unspecified, but its bytes are initialised. All rented memory is counted, including small pieces, which are not
//! worth keeping.

use std::sync::Arc;

use kiln_backend::{ExecuteError, Memory, MemoryLimits, MemoryPool, MemoryStats};

use super::host_memory::HostMemory;
use super::kept::{Kept, NoPiece, Piece};
use super::scratch::AlignedBytes;
use crate::error::NativeError;

/// The memory of one executor. Clones share one pool.
#[derive(Clone, Debug)]
pub(crate) struct HostMemoryPool(Arc<Kept<AlignedBytes>>);

impl Piece for AlignedBytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl HostMemoryPool {
    /// An empty pool.
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        Self(Arc::new(Kept::new(limits)))
    }

    /// At least `bytes` bytes: a kept piece, if there is one that is not much too long.
    pub(crate) fn take(&self, bytes: usize) -> Result<AlignedBytes, NativeError> {
        self.0
            .take(bytes, AlignedBytes::zeroed)
            .map_err(|problem| match problem {
                NoPiece::Limit { given, limit } => NativeError::MemoryLimit { given, limit },
                NoPiece::Unmade(error) => error.into(),
            })
    }

    /// Accepts returned memory; the oldest kept memory is freed for it.
    pub(crate) fn put(&self, piece: AlignedBytes) {
        self.0.put(piece);
    }
}

impl MemoryPool for HostMemoryPool {
    fn rent(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        Ok(super::memory(HostMemory::rented(self, bytes)?))
    }

    fn trim(&self, keep: usize) -> usize {
        self.0.trim(keep)
    }

    fn stats(&self) -> MemoryStats {
        self.0.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept::{KEPT_PIECES, WORTH_KEEPING};
    use super::*;

    const KEPT_BYTES: usize = MemoryLimits::DEFAULT.kept_bytes;

    fn pool() -> HostMemoryPool {
        HostMemoryPool::new(MemoryLimits::DEFAULT)
    }

    fn address(piece: &AlignedBytes) -> usize {
        piece.pointer().addr().get()
    }

    fn kept(pool: &HostMemoryPool) -> Vec<usize> {
        pool.0.lengths()
    }

    /// Rented and kept bytes.
    fn bytes(pool: &HostMemoryPool) -> (usize, usize) {
        (pool.stats().rented_bytes, pool.stats().kept_bytes)
    }

    #[test]
    fn a_freed_block_that_fits_is_reused() {
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
    fn small_and_huge_blocks_are_counted_and_not_kept() {
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
    fn the_oldest_kept_blocks_are_evicted() {
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
    fn kept_blocks_are_trimmed_oldest_first() {
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
    fn rents_over_the_limit_are_refused_after_trimming() {
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
        // Not kept for a piece of a different size.
        let second = pool.take(100_000).unwrap();
        assert_eq!(bytes(&pool), (100_000, 0));
        pool.put(second);
        assert_eq!(bytes(&pool), (0, 100_000));
        assert!(pool.take(usize::MAX).is_err());
    }

    #[test]
    fn failed_allocations_are_not_counted() {
        let pool = pool();
        assert!(pool.take(isize::MAX as usize - 4096).is_err());
        assert_eq!(bytes(&pool), (0, 0));
    }

    #[test]
    fn rented_memory_returns_with_its_last_handle() {
        let pool = pool();
        let memory = pool.rent(20_000).unwrap();
        let other = memory.clone();
        pool.give_back(memory);
        assert_eq!(bytes(&pool), (20_000, 0));
        drop(other);
        assert_eq!(bytes(&pool), (0, 20_000));
    }
}
