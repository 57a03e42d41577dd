//! Scratch that grows as launches need it, rented from the executor's pool, so that limits and statistics include it.

use super::memory_pool::HostMemoryPool;
use super::scratch::AlignedBytes;
use crate::error::NativeError;
use std::mem;
use std::ptr::NonNull;

/// Memory of a pool, returned when this is dropped. Its content is undefined, and its bytes are initialised.
#[derive(Debug)]
pub(crate) struct RentedBytes {
    piece: AlignedBytes,
    pool: HostMemoryPool,
}

impl RentedBytes {
    /// Empty memory.
    pub(crate) fn empty(pool: &HostMemoryPool) -> Self {
        Self {
            piece: AlignedBytes::empty(),
            pool: pool.clone(),
        }
    }

    /// Makes it at least `bytes` long, and leaves it unchanged on failure; its content is lost when it grows. Its size
    /// doubles, so that calls which each need slightly more do not all touch fresh memory.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NativeError> {
        if self.piece.len() >= bytes {
            return Ok(());
        }
        let generous = bytes.max(self.piece.len().saturating_mul(2));
        let larger = self
            .pool
            .take(generous)
            .or_else(|error| match generous > bytes {
                true => self.pool.take(bytes),
                false => Err(error),
            })?;
        self.give_back();
        self.piece = larger;
        Ok(())
    }

    /// Its start: aligned even when there are no bytes.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.piece.pointer()
    }

    fn give_back(&mut self) {
        let piece = mem::replace(&mut self.piece, AlignedBytes::empty());
        // Empty memory was never rented.
        if piece.len() > 0 {
            self.pool.put(piece);
        }
    }
}

impl Drop for RentedBytes {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::{MemoryLimits, MemoryPool as _};

    #[test]
    fn scratch_memory_is_rented_until_dropped() {
        let pool = HostMemoryPool::new(MemoryLimits::new().with_total_bytes(250_000));
        let mut scratch = RentedBytes::empty(&pool);
        assert_eq!(pool.stats().rented_bytes, 0);
        scratch.grow(60_000).unwrap();
        let start = scratch.pointer();
        scratch.grow(50_000).unwrap();
        assert_eq!(
            (scratch.pointer(), pool.stats().rented_bytes),
            (start, 60_000)
        );
        scratch.grow(70_000).unwrap();
        assert_eq!(pool.stats().rented_bytes, 120_000);
        let error = scratch.grow(200_000).unwrap_err();
        assert_eq!(error.code(), "E0895");
        assert_eq!(pool.stats().rented_bytes, 120_000);
        drop(scratch);
        assert_eq!(pool.stats().rented_bytes, 0);
    }
}
