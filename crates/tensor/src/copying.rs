//! Interruptible copies: [`Tensor::copied_while`].
//!
//! A strided view is copied block by block, so that a caller can stop between two of them, whatever the strides.

use crate::{AxisSlice, Tensor, TensorError, match_dtype};

/// Elements between two checks: under a millisecond, wherever the elements are.
const PIECE: usize = 1 << 16;

impl Tensor {
    /// As [`copied`](Tensor::copied), but calls the callback before each copied piece, with its number of elements, at
    /// most 65,536; the callback returns whether to continue. If it returns false, the rest of the copy is zeros.
    ///
    /// # Errors
    /// As [`copied`](Tensor::copied).
    pub fn copied_while(
        &self,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Tensor, TensorError> {
        if self.len() <= PIECE {
            // Called only for its effect, since small copies are always made.
            let _ = goes_on(self.len());
            return self.copied();
        }
        let mut copy = Tensor::zeros(self.dtype(), self.shape())?;
        let mut rest = copy.bytes_mut()?;
        if let Ok(bytes) = self.as_bytes() {
            let width = self.dtype().size_in_bytes();
            for (to, from) in rest
                .chunks_mut(PIECE * width)
                .zip(bytes.chunks(PIECE * width))
            {
                if !goes_on(from.len() / width) {
                    break;
                }
                to.copy_from_slice(from);
            }
            return Ok(copy);
        }
        for block in Blocks::of(self.shape()) {
            if !goes_on(PIECE) {
                break;
            }
            let block = self.slice(&block)?.copied()?;
            let (to, behind) = rest.split_at_mut(block.byte_len());
            to.copy_from_slice(block.as_bytes()?);
            rest = behind;
        }
        Ok(copy)
    }

    /// The tensor itself if its elements are row-major and aligned for their dtype, otherwise a copy as made by
    /// [`copied_while`](Tensor::copied_while).
    ///
    /// # Errors
    /// As [`copied`](Tensor::copied).
    pub fn dense_while(
        &self,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Tensor, TensorError> {
        // The elements are not accessed if that would be a download.
        let is_dense = self.is_contiguous()
            && (self.is_elsewhere()
                || match_dtype!(self.dtype(), T => {
                    !matches!(self.as_slice::<T>(), Err(TensorError::Unaligned { .. }))
                }));
        match is_dense {
            true => Ok(self.clone()),
            false => self.copied_while(goes_on),
        }
    }
}

/// The blocks of a shape, row-major: as few leading indices are fixed as needed to keep a block within [`PIECE`]
/// elements.
struct Blocks {
    shape: Vec<usize>,
    /// The split axis; those before it are iterated index by index.
    axis: usize,
    /// Indices of the axis in a block.
    step: usize,
    next: Option<Vec<usize>>,
}

impl Blocks {
    /// The blocks of a shape that has elements.
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

    fn views() -> Vec<Tensor> {
        let n = 3 * PIECE + 5;
        let x = Tensor::from_vec(&[2, n], (0..2 * n as i32).collect()).unwrap();
        let columns = x.transpose(&[1, 0]).unwrap();
        vec![
            x.broadcast_to(&[3, 2, n]).unwrap(),
            columns.broadcast_to(&[n, 2]).unwrap(),
            x.reverse(1).unwrap(),
            columns,
            x,
        ]
    }

    #[test]
    fn large_views_are_copied_block_by_block() {
        for view in views() {
            let copy = view.copied_while(&mut |_| true).unwrap();
            assert!(copy.is_contiguous());
            assert!(copy.bit_equal(&view.copied().unwrap()));
            assert!(view.dense_while(&mut |_| true).unwrap().bit_equal(&view));
        }
    }

    #[test]
    fn a_copy_polls_once_per_piece_and_stops_on_request() {
        for view in views() {
            let mut asked = 0;
            let copy = view.copied_while(&mut |elements| {
                assert!(elements <= PIECE);
                asked += 1;
                asked < 3
            });
            assert_eq!(asked, 3);
            let (copy, whole) = (copy.unwrap(), view.to_vec::<i32>().unwrap());
            let copied = copy.to_vec::<i32>().unwrap();
            let n_copied = copied.iter().rposition(|&x| x != 0).unwrap() + 1;
            assert!(n_copied <= 2 * PIECE && copied[..n_copied] == whole[..n_copied]);
        }
    }
}
