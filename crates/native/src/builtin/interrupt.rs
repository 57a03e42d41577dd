//! Periodic cancellation checks inside builtins.
//!
//! A builtin that is stopped returns immediately; its output is undefined, as for a stopped launch.

use kiln_backend::StopSignal;
use std::cmp::Ordering;

/// Elements between two checks: a few milliseconds of the slowest builtin.
pub(super) const PIECE: usize = 1 << 16;

/// The stop signal.
#[derive(Clone, Copy, Default)]
pub(crate) struct Interrupt<'a>(pub(crate) Option<&'a dyn StopSignal>);

/// The run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

impl Interrupt<'_> {
    /// To be called before each [`PIECE`] of elements.
    pub(super) fn check(self) -> Result<(), Stopped> {
        match self.0 {
            Some(signal) if signal.is_stopped() => Err(Stopped),
            _ => Ok(()),
        }
    }

    /// Copies elements; both sides have the same number.
    pub(super) fn copy<T: Copy>(self, to: &mut [T], from: &[T]) -> Result<(), Stopped> {
        const COPIED: usize = 16 * PIECE;
        for (to, from) in to.chunks_mut(COPIED).zip(from.chunks(COPIED)) {
            self.check()?;
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// Sorts by an order in which no two items are equal.
    pub(super) fn sort<T: Copy>(
        self,
        items: &mut [T],
        room: &mut Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> Result<(), Stopped> {
        for piece in items.chunks_mut(PIECE) {
            self.check()?;
            piece.sort_unstable_by(&compare);
        }
        let mut width = PIECE;
        while width < items.len() {
            room.clear();
            for pair in items.chunks(2 * width) {
                let (mut left, mut right) = pair.split_at(width.min(pair.len()));
                while let (Some((first, others)), Some((second, behind))) =
                    (left.split_first(), right.split_first())
                {
                    if room.len().is_multiple_of(PIECE) {
                        self.check()?;
                    }
                    if compare(second, first) == Ordering::Less {
                        room.push(*second);
                        right = behind;
                    } else {
                        room.push(*first);
                        left = others;
                    }
                }
                room.extend_from_slice(left);
                room.extend_from_slice(right);
            }
            self.copy(items, room)?;
            width *= 2;
        }
        Ok(())
    }
}
