//! Asking inside an op, now and then, whether to stop: [`Interrupt`].
//!
//! An op says how many elements it is about to work on, in pieces of at most [`PIECE`]; after each [`PIECE`] of them the
//! caller's question is asked. Where the caller asks nothing, that is an addition and a comparison.

use crate::buffer::reserved;
use crate::element::Number;
use crate::fault::OpFault;
use kiln_tensor::{AxisSlice, Tensor, TensorError, match_dtype};
use std::cell::Cell;
use std::cmp::Ordering;

/// Elements between two questions: a few milliseconds of the slowest op.
pub(crate) const PIECE: usize = 1 << 16;

/// Bytes that are copied between two questions.
const COPIED: usize = 1 << 20;

/// Counts the work of one op and asks whether to stop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Interrupt<'a>(Option<Asked<'a>>);

#[derive(Clone, Copy)]
struct Asked<'a> {
    cancelled: &'a dyn Fn() -> bool,
    /// Elements since the last question.
    done: &'a Cell<usize>,
}

impl<'a> Interrupt<'a> {
    /// Asks this question, if there is one, and counts here.
    pub(crate) fn new(cancelled: Option<&'a dyn Fn() -> bool>, done: &'a Cell<usize>) -> Self {
        Self(cancelled.map(|cancelled| Asked { cancelled, done }))
    }

    /// Notes that work on so many elements comes next.
    ///
    /// # Errors
    /// [`OpFault::Stopped`] if the caller wants to stop.
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

    /// The pieces of a run of elements, each counted before it is given out.
    pub(crate) fn pieces<'s, T>(
        self,
        elements: &'s [T],
    ) -> impl Iterator<Item = Result<&'s [T], OpFault>> + use<'s, 'a, T> {
        let pieces = elements.chunks(PIECE);
        pieces.map(move |piece| self.work(piece.len()).map(|()| piece))
    }

    /// Copies elements, of which there are as many on both sides.
    pub(crate) fn copy<T: Copy>(self, to: &mut [T], from: &[T]) -> Result<(), OpFault> {
        let piece = (COPIED / size_of::<T>()).max(1);
        for (to, from) in to.chunks_mut(piece).zip(from.chunks(piece)) {
            // Memory moves faster than elements are computed.
            self.work(from.len() / 16)?;
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// Rounds results, of which there are as many on both sides.
    pub(crate) fn narrow<T: Number>(self, to: &mut [T], from: &[T::Wide]) -> Result<(), OpFault> {
        for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
            self.work(from.len())?;
            for (to, &from) in to.iter_mut().zip(from) {
                *to = T::narrow(from);
            }
        }
        Ok(())
    }

    /// Widens as many elements as both sides have.
    pub(crate) fn widen<T: Number>(self, to: &mut [T::Wide], from: &[T]) -> Result<(), OpFault> {
        for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
            self.work(to.len())?;
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.to_wide();
            }
        }
        Ok(())
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

    /// The tensor itself, or a copy of it whose elements lie in row-major order, aligned.
    pub(crate) fn dense(self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        let is_dense = tensor.is_contiguous()
            && match_dtype!(tensor.dtype(), T => {
                !matches!(tensor.as_slice::<T>(), Err(TensorError::Unaligned { .. }))
            });
        if is_dense {
            return Ok(tensor.clone());
        }
        self.copied(tensor)
    }

    /// A copy in row-major order, in memory of its own.
    pub(crate) fn copied(self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        if tensor.len() <= PIECE {
            self.work(tensor.len())?;
            return Ok(tensor.copied()?);
        }
        let mut result = Tensor::zeros(tensor.dtype(), tensor.shape())?;
        match_dtype!(tensor.dtype(), T => {
            let mut rest = result.as_mut_slice::<T>()?;
            for block in Blocks::of(tensor.shape()) {
                self.work(PIECE)?;
                let block = tensor.slice(&block)?.copied()?;
                let (to, behind) = rest.split_at_mut(block.len());
                to.copy_from_slice(block.as_slice::<T>()?);
                rest = behind;
            }
        });
        Ok(result)
    }

    /// Sorts, equal items in the order in which they were.
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

/// The blocks that a shape falls into, row-major: as few leading indices fixed as keep a block to [`PIECE`] elements.
struct Blocks {
    shape: Vec<usize>,
    /// The axis that is cut, those before it being gone through index by index.
    axis: usize,
    /// Indices of the axis in a block.
    step: usize,
    next: Option<Vec<usize>>,
}

impl Blocks {
    /// Of a shape that has elements.
    fn of(shape: &[usize]) -> Self {
        let mut inner = 1usize;
        let mut axis = shape.len();
        while axis > 0 && inner.saturating_mul(shape[axis - 1]) <= PIECE {
            axis -= 1;
            inner *= shape[axis];
        }
        let axis = axis.saturating_sub(1);
        Self {
            shape: shape.to_vec(),
            axis,
            step: (PIECE / inner.max(1)).max(1),
            next: Some(vec![0; axis + 1]),
        }
    }
}

impl Iterator for Blocks {
    type Item = Vec<AxisSlice>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut at = self.next.take()?;
        let block = at.iter().enumerate().map(|(axis, &start)| {
            let step = if axis == self.axis { self.step } else { 1 };
            AxisSlice {
                axis,
                start,
                len: step.min(self.shape[axis] - start),
                step: 1,
            }
        });
        let block = block.collect();
        for axis in (0..=self.axis).rev() {
            at[axis] += if axis == self.axis { self.step } else { 1 };
            if at[axis] < self.shape[axis] {
                self.next = Some(at);
                break;
            }
            at[axis] = 0;
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_asked_once_per_piece_and_a_yes_ends_the_work() {
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
    fn large_views_are_copied_block_by_block() {
        let n = 3 * PIECE + 5;
        let numbers: Vec<i32> = (0..2 * n as i32).collect();
        let x = Tensor::from_vec(&[2, n], numbers).unwrap();
        let interrupt = Interrupt::default();
        for view in [
            x.transpose(&[1, 0]).unwrap(),
            x.broadcast_to(&[3, 2, n]).unwrap(),
            x.transpose(&[1, 0])
                .unwrap()
                .broadcast_to(&[2, n, 2])
                .unwrap(),
        ] {
            let copy = interrupt.dense(&view).unwrap();
            assert!(copy.is_contiguous());
            assert!(copy.bit_equal(&view.copied().unwrap()));
        }
    }

    #[test]
    fn long_lists_are_sorted_as_short_ones_are() {
        let items: Vec<(usize, usize)> = (0..5 * PIECE / 2).map(|i| (i * 7919 % 1000, i)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        let mut found = items;
        let interrupt = Interrupt::default();
        interrupt.sort(&mut found, |a, b| a.0.cmp(&b.0)).unwrap();
        assert_eq!(found, expected);
    }
}
