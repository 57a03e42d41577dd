//! Views: other layouts over the same storage. Nothing here moves an element, except a reshape
//! that strides cannot express.

use smallvec::SmallVec;

use crate::error::excerpt;
use crate::layout::{Dims, Layout, Strides};
use crate::{Tensor, TensorError, element_count};

/// A regular selection on one axis: `len` indices `start`, `start + step`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSlice {
    /// The axis.
    pub axis: usize,
    /// The first index; any value when `len` is 0.
    pub start: usize,
    /// The number of indices.
    pub len: usize,
    /// The distance between indices; negative runs backwards, 0 repeats the first.
    pub step: isize,
}

impl Tensor {
    /// The same storage and offset with other axes, which must be a valid shape and strides that stay inside.
    fn with_axes(&self, shape: Dims, strides: Strides) -> Tensor {
        self.with_layout(Layout::new(shape, strides, self.layout().offset()))
    }

    /// The same elements in row-major order with a different shape; copies only if necessary.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor, TensorError> {
        let found = element_count(self.dtype(), shape)?;
        if found != self.len() {
            return Err(TensorError::ReshapeMismatch {
                from: excerpt(self.shape()),
                to: excerpt(shape),
                expected: self.len(),
                found,
            });
        }
        match self.layout().reshaped(shape) {
            Some(layout) => Ok(self.with_layout(layout)),
            None => {
                let copy = self.copied()?;
                Ok(copy.with_layout(Layout::row_major(shape)))
            }
        }
    }

    /// The axes in a different order: axis `i` of the result is axis `permutation[i]` of this.
    pub fn transpose(&self, permutation: &[usize]) -> Result<Tensor, TensorError> {
        let error = || TensorError::NotAPermutation {
            permutation: excerpt(permutation),
            rank: self.rank(),
        };
        let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, self.rank());
        let mut shape = Dims::new();
        let mut strides = Strides::new();
        for &axis in permutation {
            let seen = seen.get_mut(axis).ok_or_else(error)?;
            if std::mem::replace(seen, true) {
                return Err(error());
            }
            shape.extend(self.shape().get(axis).copied());
            strides.extend(self.strides().get(axis).copied());
        }
        if shape.len() != self.rank() {
            return Err(error());
        }
        Ok(self.with_axes(shape, strides))
    }

    /// A slice of some axes; the other axes are whole. An axis named twice is sliced twice.
    pub fn slice(&self, slices: &[AxisSlice]) -> Result<Tensor, TensorError> {
        let (mut shape, mut strides) = self.layout().axes();
        let mut offset = self.layout().offset() as isize;
        for &AxisSlice {
            axis,
            start,
            len,
            step,
        } in slices
        {
            let (Some(dim), Some(stride)) = (shape.get_mut(axis), strides.get_mut(axis)) else {
                return Err(TensorError::AxisOutOfRange {
                    axis,
                    rank: self.rank(),
                });
            };
            let size = *dim;
            let last = start as i128 + (len as i128 - 1) * step as i128;
            if len > 0 && (start >= size || !(0..size as i128).contains(&last)) {
                return Err(TensorError::SliceOutOfRange {
                    axis,
                    start,
                    len,
                    step,
                    size,
                });
            }
            if len > 0 {
                // An empty tensor is never read, so a wrapped offset is harmless.
                offset = offset.wrapping_add(stride.wrapping_mul(start as isize));
            }
            *dim = len;
            *stride = stride.wrapping_mul(step);
        }
        let len = element_count(self.dtype(), &shape)?;
        let offset = if len == 0 { 0 } else { offset as usize };
        Ok(self.with_layout(Layout::new(shape, strides, offset)))
    }

    /// `len` indices of one axis, from `start`.
    pub fn narrow(&self, axis: usize, start: usize, len: usize) -> Result<Tensor, TensorError> {
        self.slice(&[AxisSlice {
            axis,
            start,
            len,
            step: 1,
        }])
    }

    /// One axis reversed.
    pub fn reverse(&self, axis: usize) -> Result<Tensor, TensorError> {
        let size = self.shape().get(axis).copied();
        let len = size.ok_or(TensorError::AxisOutOfRange {
            axis,
            rank: self.rank(),
        })?;
        self.slice(&[AxisSlice {
            axis,
            start: len.saturating_sub(1),
            len,
            step: -1,
        }])
    }

    /// Axes of size 1 repeated (by stride 0) and new leading axes added, to reach `shape`.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor, TensorError> {
        element_count(self.dtype(), shape)?;
        let error = || TensorError::BroadcastMismatch {
            from: excerpt(self.shape()),
            to: excerpt(shape),
        };
        let n_new = shape.len().checked_sub(self.rank()).ok_or_else(error)?;
        let mut strides: Strides = SmallVec::from_elem(0, n_new);
        let axes = self.shape().iter().zip(self.strides());
        for ((&dim, &stride), &wanted) in axes.zip(shape.iter().skip(n_new)) {
            match dim {
                _ if dim == wanted => strides.push(stride),
                1 => strides.push(0),
                _ => return Err(error()),
            }
        }
        Ok(self.with_axes(shape.into(), strides))
    }

    /// Removes one axis, whose size must be 1.
    pub fn squeeze(&self, axis: usize) -> Result<Tensor, TensorError> {
        let (mut shape, mut strides) = self.layout().axes();
        match shape.get(axis) {
            None => {
                return Err(TensorError::AxisOutOfRange {
                    axis,
                    rank: self.rank(),
                });
            }
            Some(&1) => {}
            Some(&size) => return Err(TensorError::NotSqueezable { axis, size }),
        }
        shape.remove(axis);
        strides.remove(axis);
        Ok(self.with_axes(shape, strides))
    }

    /// Adds an axis of size 1, which becomes axis `axis` of the result.
    pub fn unsqueeze(&self, axis: usize) -> Result<Tensor, TensorError> {
        if axis > self.rank() {
            return Err(TensorError::AxisOutOfRange {
                axis,
                rank: self.rank() + 1,
            });
        }
        let (mut shape, mut strides) = self.layout().axes();
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        Ok(self.with_axes(shape, strides))
    }
}
