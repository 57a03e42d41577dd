//! The contents of a memory pool: the returned pieces, and the accounting of all rented memory.
//!
//! There are two guarantees. Rented memory never exceeds the limit. And when no thread is executing this code, rented
//! and kept memory together do not exceed it either: a thread that rents more frees space afterwards, under the lock
//! under which pieces are returned. A model checker runs this file in every interleaving.

use kiln_backend::{MemoryLimits, MemoryStats};

use super::sync::{AtomicU64, AtomicUsize, ForkLock, MutexGuard, Ordering};

/// The maximum number of kept pieces.
pub(crate) const KEPT_PIECES: usize = 64;

/// The minimum size of a kept piece; smaller pieces are left to the system's allocator, which is fast for them.
pub(crate) const WORTH_KEEPING: usize = 16 << 10;

/// A piece of memory.
pub(crate) trait Piece {
    /// Its bytes.
    fn bytes(&self) -> usize;
}

/// Why there is no piece.
#[derive(Debug)]
pub(crate) enum NoPiece<E> {
    /// The rented total would exceed the limit.
    Limit {
        /// The total.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// It could not be allocated.
    Unmade(E),
}

/// Returned pieces, and the byte counts of rented and kept memory.
#[derive(Debug)]
pub(crate) struct Kept<P> {
    limits: MemoryLimits,
    /// The piece that was returned last is found first. No code that could leave it inconsistent runs while it is
    /// locked.
    pieces: ForkLock<Vec<P>>,
    kept_bytes: AtomicUsize,
    rented_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    rents: AtomicU64,
    reuses: AtomicU64,
    refusals: AtomicU64,
}

impl<P: Piece + 'static> Kept<P> {
    /// No pieces yet.
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        Self {
            limits,
            pieces: ForkLock::new(Vec::new),
            kept_bytes: AtomicUsize::new(0),
            rented_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            rents: AtomicU64::new(0),
            reuses: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// At least `bytes` bytes: a kept piece, if there is one that is not much too long, or the result of `make`.
    pub(crate) fn take<E>(
        &self,
        bytes: usize,
        make: impl Fn(usize) -> Result<P, E>,
    ) -> Result<P, NoPiece<E>> {
        self.rents.fetch_add(1, Ordering::Relaxed);
        if bytes >= WORTH_KEEPING
            && let Some(piece) = self.take_kept(bytes)
        {
            self.reuses.fetch_add(1, Ordering::Relaxed);
            return Ok(piece);
        }
        self.count_in(bytes)?;
        let piece = make(bytes).or_else(|_| {
            // Kept memory may be the reason why none is available.
            self.trim(0);
            make(bytes)
        });
        if piece.is_err() {
            self.rented_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        piece.map_err(NoPiece::Unmade)
    }

    /// Accepts returned memory; the oldest kept memory is freed for it.
    pub(crate) fn put(&self, piece: P) {
        let bytes = piece.bytes();
        let limit = self.limits.kept_bytes.min(self.limits.total_bytes);
        if !(WORTH_KEEPING..=limit).contains(&bytes) {
            self.rented_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let mut pieces = self.lock();
        let freed = self.free(&mut pieces, limit - bytes, KEPT_PIECES - 1);
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        // In this order, so that a thread that makes space finds it in one count or the other, or in both.
        self.rented_bytes.fetch_sub(bytes, Ordering::Release);
        pieces.push(piece);
        drop(pieces);
        // Freed only now, outside the lock.
        drop(freed);
    }

    /// Frees kept memory, the oldest first, until at most this many bytes are left; returns the number of freed bytes.
    pub(crate) fn trim(&self, keep: usize) -> usize {
        let freed = self.free(&mut self.lock(), keep, KEPT_PIECES);
        freed.iter().map(Piece::bytes).sum()
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let mut stats = MemoryStats::default();
        stats.rented_bytes = self.rented_bytes.load(Ordering::Relaxed);
        stats.peak_bytes = self.peak_bytes.load(Ordering::Relaxed);
        stats.kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        stats.rents = self.rents.load(Ordering::Relaxed);
        stats.reuses = self.reuses.load(Ordering::Relaxed);
        stats.refusals = self.refusals.load(Ordering::Relaxed);
        stats
    }

    /// The lengths of kept pieces.
    #[cfg(test)]
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.lock().iter().map(Piece::bytes).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<P>> {
        self.pieces.lock()
    }

    fn take_kept(&self, bytes: usize) -> Option<P> {
        let mut pieces = self.lock();
        let fits = |piece: &P| (bytes..=bytes.saturating_mul(2)).contains(&piece.bytes());
        let position = pieces.iter().rposition(fits)?;
        let bytes = pieces.get(position)?.bytes();
        // Other threads may have rented memory that was free when it was put here.
        let sum = self.add_rented(bytes).ok()?;
        let piece = pieces.remove(position);
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(pieces);
        self.note_peak(sum);
        Some(piece)
    }

    /// Counts bytes as rented, if the limit allows it; returns the sum, or what it would have been.
    fn add_rented(&self, bytes: usize) -> Result<usize, usize> {
        let limit = self.limits.total_bytes;
        let add = |rented: usize| rented.checked_add(bytes).filter(|&sum| sum <= limit);
        let relaxed = Ordering::Relaxed;
        match self.rented_bytes.fetch_update(relaxed, relaxed, add) {
            Ok(before) => Ok(before.saturating_add(bytes)),
            Err(before) => Err(before.saturating_add(bytes)),
        }
    }

    fn count_in<E>(&self, bytes: usize) -> Result<(), NoPiece<E>> {
        let limit = self.limits.total_bytes;
        let sum = self.add_rented(bytes).map_err(|given| {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            NoPiece::Limit { given, limit }
        })?;
        self.note_peak(sum);
        // Usually there is space, and the check takes no lock.
        let rented = self.rented_bytes.load(Ordering::Acquire);
        let kept = self.kept_bytes.load(Ordering::Acquire);
        if rented.saturating_add(kept) > limit {
            // Kept memory makes space for requests.
            let mut pieces = self.lock();
            let rented = self.rented_bytes.load(Ordering::Relaxed);
            let freed = self.free(&mut pieces, limit.saturating_sub(rented), KEPT_PIECES);
            drop(pieces);
            drop(freed);
        }
        Ok(())
    }

    fn note_peak(&self, rented: usize) {
        // Usually there is nothing to record, and a read does not take the cache line from other threads.
        if self.peak_bytes.load(Ordering::Relaxed) < rented {
            self.peak_bytes.fetch_max(rented, Ordering::Relaxed);
        }
    }

    /// Takes out the oldest pieces until at most this many bytes and pieces are left.
    fn free(&self, kept: &mut Vec<P>, bytes: usize, pieces: usize) -> Vec<P> {
        let mut total: usize = kept.iter().map(Piece::bytes).sum();
        let mut n_freed = 0;
        for piece in kept.iter() {
            if total <= bytes && kept.len() - n_freed <= pieces {
                break;
            }
            total -= piece.bytes();
            n_freed += 1;
        }
        let freed: Vec<P> = kept.drain(..n_freed).collect();
        let n_bytes = freed.iter().map(Piece::bytes).sum();
        self.kept_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
        freed
    }
}
