//! Memory that was given back, for whoever asks next.
//!
//! Fresh memory is cleared, or mapped page by page as it is touched; for large results that takes longer than computing
//! them. So what an executor's memory leaves behind is kept, up to a limit, and handed out again as it is: its content is
//! not defined, and its bytes are initialised.

use std::sync::{Mutex, PoisonError};

use kiln_tensor::TensorError;

use super::scratch::AlignedBytes;

/// How many bytes are kept at most.
const KEPT_BYTES: usize = 512 << 20;

/// How many pieces are kept at most.
const KEPT_PIECES: usize = 64;

/// Pieces of less are left to the system's allocator, which is quick with them.
const WORTH_KEEPING: usize = 16 << 10;

/// The memory that one executor keeps.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    /// Given back last, found first. No code runs while it is locked that could leave it half changed.
    kept: Mutex<Vec<AlignedBytes>>,
}

impl Recycler {
    /// At least `bytes` bytes: kept ones, if some are not much too long.
    pub(crate) fn take(&self, bytes: usize) -> Result<AlignedBytes, TensorError> {
        if bytes >= WORTH_KEEPING {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let fits =
                |piece: &AlignedBytes| (bytes..=bytes.saturating_mul(2)).contains(&piece.len());
            if let Some(position) = kept.iter().rposition(fits) {
                return Ok(kept.remove(position));
            }
        }
        AlignedBytes::zeroed(bytes)
    }

    /// Takes memory back; what was kept longest is freed for it.
    pub(crate) fn give_back(&self, piece: AlignedBytes) {
        if !(WORTH_KEEPING..=KEPT_BYTES).contains(&piece.len()) {
            return;
        }
        let mut freed = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total: usize = kept.iter().map(AlignedBytes::len).sum();
        while !kept.is_empty() && (total + piece.len() > KEPT_BYTES || kept.len() >= KEPT_PIECES) {
            let oldest = kept.remove(0);
            total -= oldest.len();
            freed.push(oldest);
        }
        kept.push(piece);
        drop(kept);
        // Freed only now, when nobody waits.
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(piece: &AlignedBytes) -> usize {
        piece.pointer().addr().get()
    }

    #[test]
    fn what_fits_is_handed_out_again() {
        let recycler = Recycler::default();
        let piece = recycler.take(100_000).unwrap();
        let first = address(&piece);
        recycler.give_back(piece);
        let larger = recycler.take(150_000).unwrap();
        assert_ne!(address(&larger), first);
        let much_smaller = recycler.take(40_000).unwrap();
        assert_ne!(address(&much_smaller), first);
        let again = recycler.take(60_000).unwrap();
        assert_eq!(address(&again), first);
        assert_eq!(again.len(), 100_000);
    }

    #[test]
    fn small_and_huge_pieces_are_not_kept() {
        let recycler = Recycler::default();
        recycler.give_back(AlignedBytes::zeroed(100).unwrap());
        recycler.give_back(AlignedBytes::empty());
        recycler.give_back(AlignedBytes::zeroed(KEPT_BYTES + 1).unwrap());
        assert!(recycler.kept.lock().unwrap().is_empty());
    }

    #[test]
    fn the_oldest_make_room() {
        let recycler = Recycler::default();
        for _ in 0..KEPT_PIECES + 3 {
            recycler.give_back(AlignedBytes::zeroed(WORTH_KEEPING).unwrap());
        }
        assert_eq!(recycler.kept.lock().unwrap().len(), KEPT_PIECES);
        recycler.give_back(AlignedBytes::zeroed(KEPT_BYTES).unwrap());
        let kept = recycler.kept.lock().unwrap();
        assert_eq!(
            kept.iter().map(AlignedBytes::len).collect::<Vec<_>>(),
            [KEPT_BYTES]
        );
    }
}
