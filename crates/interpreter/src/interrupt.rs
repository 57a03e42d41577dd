//! Periodic stop checks inside an op: [`Interrupt`].
//!
//! An op announces how many elements it is about to process, in pieces of at most [`PIECE`]; after each [`PIECE`] of them
//! the caller's callback is called. Without a callback, that is an addition and a comparison.

use crate::buffer::reserved;
use crate::fault::OpFault;
use kiln_tensor::{Tensor, TensorError};
use std::cell::Cell;
use std::cmp::Ordering;

/// Elements between two checks: a few milliseconds of the slowest op.
pub(crate) const PIECE: usize = 1 << 16;

/// Bytes copied between two checks.
const COPIED: usize = 1 << 20;

/// Counts the work of one op and calls the stop callback.
#[derive(Clone, Copy, Default)]
pub(crate) struct Interrupt<'a>(Option<Asked<'a>>);

#[derive(Clone, Copy)]
struct Asked<'a> {
    cancelled: &'a dyn Fn() -> bool,
    /// Elements since the last check.
    done: &'a Cell<usize>,
}

impl<'a> Interrupt<'a> {
    /// Makes one with this callback, if there is one, and a counter.
    pub(crate) fn new(cancelled: Option<&'a dyn Fn() -> bool>, done: &'a Cell<usize>) -> Self {
        Self(cancelled.map(|cancelled| Asked { cancelled, done }))
    }

    /// Announces work on `elements` elements.
    ///
    /// # Errors
    /// [`OpFault::Stopped`] if the caller stops the run.
    #[inline]
    pub(crate) fn work(self, elements: usize) -> Result<(), OpFault> {
        let Some(Asked { cancelled, done }) = self.0 else {
            return Ok(());
        };
        let so_far = done.get().saturating_add(elements.max(1));
        if so_far < PIECE {
            done.set(so_far);
            return Ok(());
        }
        done.set(0);
        match cancelled() {
            true => Err(OpFault::Stopped),
            false => Ok(()),
        }
    }

    /// The pieces of a run of elements, each counted before it is processed.
    pub(crate) fn pieces<'s, T>(
        self,
        elements: &'s [T],
    ) -> impl Iterator<Item = Result<&'s [T], OpFault>> + use<'s, 'a, T> {
        let pieces = elements.chunks(PIECE);
        pieces.map(move |piece| self.work(piece.len()).map(|()| piece))
    }

    /// Copies elements; both sides have the same number.
    pub(crate) fn copy<T: Copy>(self, to: &mut [T], from: &[T]) -> Result<(), OpFault> {
        let piece = (COPIED / size_of::<T>()).max(1);
        for (to, from) in to.chunks_mut(piece).zip(from.chunks(piece)) {
            // Copying is faster than computing elements.
            self.work(from.len() / 16)?;
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// A vector of `len` times `value`.
    pub(crate) fn filled<T: Clone>(self, len: usize, value: T) -> Result<Vec<T>, OpFault> {
        let mut buffer = reserved(len)?;
        while buffer.len() < len {
            let filled = len.min(buffer.len() + PIECE);
            self.work(filled - buffer.len())?;
            buffer.resize(filled, value.clone());
        }
        Ok(buffer)
    }

    /// A vector of `len` items of an iterator.
    pub(crate) fn collect<T>(
        self,
        len: usize,
        items: impl IntoIterator<Item = T>,
    ) -> Result<Vec<T>, OpFault> {
        let mut items = items.into_iter().take(len);
        let mut buffer = reserved(len)?;
        while buffer.len() < len {
            let before = buffer.len();
            self.work(PIECE.min(len - before))?;
            buffer.extend(items.by_ref().take(PIECE));
            if buffer.len() == before {
                break;
            }
        }
        Ok(buffer)
    }

    /// The tensor itself, or an aligned, row-major copy of it.
    pub(crate) fn dense(self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        self.asking(|goes_on| tensor.dense_while(goes_on))
    }

    /// A copy in row-major order, in separate memory.
    pub(crate) fn copied(self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        self.asking(|goes_on| tensor.copied_while(goes_on))
    }

    /// The result of an interruptible copy, unless it was stopped.
    fn asking(
        self,
        copy: impl FnOnce(&mut dyn FnMut(usize) -> bool) -> Result<Tensor, TensorError>,
    ) -> Result<Tensor, OpFault> {
        let mut asked = Ok(());
        let copied = copy(&mut |elements| {
            asked = self.work(elements);
            asked.is_ok()
        });
        asked?;
        Ok(copied?)
    }

    /// A stable sort.
    pub(crate) fn sort<T: Copy>(
        self,
        items: &mut [T],
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> Result<(), OpFault> {
        for piece in items.chunks_mut(PIECE) {
            self.work(PIECE)?;
            piece.sort_by(&compare);
        }
        let mut width = PIECE;
        while width < items.len() {
            let mut merged = reserved(items.len())?;
            for pair in items.chunks(2 * width) {
                let (mut left, mut right) = pair.split_at(width.min(pair.len()));
                while let (Some((first, others)), Some((second, behind))) =
                    (left.split_first(), right.split_first())
                {
                    self.work(1)?;
                    if compare(second, first) == Ordering::Less {
                        merged.push(*second);
                        right = behind;
                    } else {
                        merged.push(*first);
                        left = others;
                    }
                }
                merged.extend_from_slice(left);
                merged.extend_from_slice(right);
            }
            self.copy(items, &merged)?;
            width *= 2;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_polled_per_piece_and_ends_the_work() {
        let asked = Cell::new(0);
        let question = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let done = Cell::new(0);
        let interrupt = Interrupt::new(Some(&question), &done);
        let elements = vec![0u8; 5 * PIECE];
        let pieces = interrupt.pieces(&elements).take_while(Result::is_ok);
        assert_eq!((pieces.count(), asked.get()), (2, 3));
        assert!(Interrupt::default().work(usize::MAX).is_ok());
    }

    #[test]
    fn long_lists_sort_like_short_ones() {
        let items: Vec<(usize, usize)> = (0..5 * PIECE / 2).map(|i| (i * 7919 % 1000, i)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        let mut found = items;
        let interrupt = Interrupt::default();
        interrupt.sort(&mut found, |a, b| a.0.cmp(&b.0)).unwrap();
        assert_eq!(found, expected);
    }
}
