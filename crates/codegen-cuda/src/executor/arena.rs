//! The layout of device memory: segments allocated by the driver, divided into pieces.
//!
//! This is bookkeeping only: nothing here calls the driver. Invariants: pieces of a segment are adjacent and cover it;
//! two free pieces are never adjacent.

use std::collections::{BTreeMap, BTreeSet};

/// Pieces start at multiples of this, and so do segments.
pub(crate) const ALIGNMENT: usize = 256;

/// The memory that an executor has allocated from the driver.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Every piece by address.
    pieces: BTreeMap<u64, Piece>,
    /// The free ones by size.
    free: BTreeSet<(usize, u64)>,
    free_bytes: usize,
    used_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: usize,
    is_free: bool,
    /// Whether a segment begins here.
    is_first: bool,
}

impl Arena {
    /// The bytes that a piece for a request takes; `None` if it does not fit an address space.
    pub(crate) fn rounded(bytes: usize) -> Option<usize> {
        bytes.max(1).checked_next_multiple_of(ALIGNMENT)
    }

    /// Bytes of free pieces.
    pub(crate) fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Bytes of all segments.
    pub(crate) fn all_bytes(&self) -> usize {
        self.free_bytes + self.used_bytes
    }

    /// Adds a segment, free.
    pub(crate) fn add(&mut self, address: u64, bytes: usize) {
        let piece = Piece {
            bytes,
            is_free: true,
            is_first: true,
        };
        self.pieces.insert(address, piece);
        self.free.insert((bytes, address));
        self.free_bytes += bytes;
    }

    /// Takes the smallest free piece of at least this many (rounded) bytes; the rest of it stays free.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<u64> {
        let &(found, address) = self.free.range((bytes, 0)..).next()?;
        self.free.remove(&(found, address));
        self.free_bytes -= bytes;
        self.used_bytes += bytes;
        let piece = self.pieces.get_mut(&address)?;
        piece.is_free = false;
        piece.bytes = bytes;
        if found > bytes {
            let rest = Piece {
                bytes: found - bytes,
                is_free: true,
                is_first: false,
            };
            let begin = address + bytes as u64;
            self.pieces.insert(begin, rest);
            self.free.insert((rest.bytes, begin));
        }
        Some(address)
    }

    /// Returns a piece; it is merged with free neighbours of its segment. Returns its bytes.
    pub(crate) fn give(&mut self, address: u64) -> usize {
        let Some(&(mut piece)) = self.pieces.get(&address).filter(|piece| !piece.is_free) else {
            return 0;
        };
        self.pieces.remove(&address);
        let given = piece.bytes;
        self.used_bytes -= given;
        self.free_bytes += given;
        let mut begin = address;
        let after = begin + piece.bytes as u64;
        if let Some(next) = self.pieces.get(&after).copied()
            && next.is_free
            && !next.is_first
        {
            self.pieces.remove(&after);
            self.free.remove(&(next.bytes, after));
            piece.bytes += next.bytes;
        }
        if !piece.is_first
            && let Some((&before, &previous)) = self.pieces.range(..begin).next_back()
            && previous.is_free
            && before + previous.bytes as u64 == begin
        {
            self.pieces.remove(&before);
            self.free.remove(&(previous.bytes, before));
            piece.bytes += previous.bytes;
            piece.is_first = previous.is_first;
            begin = before;
        }
        piece.is_free = true;
        self.free.insert((piece.bytes, begin));
        self.pieces.insert(begin, piece);
        given
    }

    /// Removes segments without a used piece, the largest first, until at most `keep` bytes are free or no such segment
    /// is left. The caller frees them.
    pub(crate) fn take_unused(&mut self, keep: usize) -> Vec<(u64, usize)> {
        let mut taken = Vec::new();
        let whole: Vec<(usize, u64)> = self
            .free
            .iter()
            .rev()
            .copied()
            .filter(|&(bytes, address)| self.is_whole(address, bytes))
            .collect();
        for (bytes, address) in whole {
            if self.free_bytes <= keep {
                break;
            }
            self.pieces.remove(&address);
            self.free.remove(&(bytes, address));
            self.free_bytes -= bytes;
            taken.push((address, bytes));
        }
        taken
    }

    /// Whether a free piece is a whole segment.
    fn is_whole(&self, address: u64, bytes: usize) -> bool {
        let is_first = |address: &u64| self.pieces.get(address).is_none_or(|piece| piece.is_first);
        self.pieces
            .get(&address)
            .is_some_and(|piece| piece.is_first)
            && is_first(&(address + bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_split_and_merged() {
        let mut arena = Arena::default();
        arena.add(0x1000, 4096);
        let [a, b, c] = [256, 512, 1024].map(|bytes| arena.take(bytes).unwrap());
        assert_eq!((a, b, c), (0x1000, 0x1100, 0x1300));
        assert_eq!((arena.free_bytes(), arena.all_bytes()), (2304, 4096));
        assert_eq!(arena.give(b), 512);
        // The smallest that fits.
        assert_eq!(arena.take(512), Some(b));
        arena.give(b);
        arena.give(a);
        assert_eq!(arena.take(768), Some(a));
        arena.give(a);
        arena.give(c);
        assert_eq!(arena.take(4096), Some(0x1000));
        assert_eq!(arena.take(256), None);
    }

    #[test]
    fn adjacent_segments_are_not_merged() {
        let mut arena = Arena::default();
        arena.add(0x1000, 512);
        arena.add(0x1200, 512);
        assert_eq!(arena.take(1024), None);
        let all = [(); 4].map(|()| arena.take(256).unwrap());
        for address in [all[1], all[2], all[0], all[3]] {
            arena.give(address);
        }
        assert_eq!(arena.take(1024), None);
        assert_eq!(arena.take_unused(512), [(0x1200, 512)]);
        assert_eq!(arena.take_unused(0), [(0x1000, 512)]);
        assert_eq!((arena.free_bytes(), arena.all_bytes()), (0, 0));
    }

    #[test]
    fn segments_in_use_are_not_taken_out() {
        let mut arena = Arena::default();
        arena.add(0x1000, 1024);
        let piece = arena.take(256).unwrap();
        assert_eq!(arena.take_unused(0), []);
        arena.give(piece);
        // Releasing twice, or releasing nothing, has no effect.
        assert_eq!((arena.give(piece), arena.give(7)), (0, 0));
        assert_eq!(arena.take_unused(0), [(0x1000, 1024)]);
    }

    #[test]
    fn random_requests_never_overlap_and_all_bytes_return() {
        let mut arena = Arena::default();
        arena.add(0x10_0000, 1 << 16);
        arena.add(0x20_0000, 1 << 14);
        let mut random = 7u64;
        let mut below = |n: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % n
        };
        let mut used: Vec<(u64, usize)> = Vec::new();
        for _ in 0..4000 {
            if below(2) == 0 || used.is_empty() {
                let bytes = Arena::rounded(below(6000) as usize).unwrap();
                let Some(address) = arena.take(bytes) else {
                    continue;
                };
                let end = address + bytes as u64;
                let clash = used
                    .iter()
                    .find(|(begin, bytes)| *begin < end && address < begin + *bytes as u64);
                assert_eq!(clash, None);
                used.push((address, bytes));
            } else {
                let at = below(used.len() as u64) as usize;
                let (address, bytes) = used.swap_remove(at);
                assert_eq!(arena.give(address), bytes);
            }
        }
        for (address, _) in used {
            arena.give(address);
        }
        assert_eq!(arena.take_unused(0).len(), 2);
        assert_eq!((arena.free_bytes(), arena.all_bytes()), (0, 0));
    }
}
