//! The position of each element of a tensor: shape, strides and offset, without the data.
//!
//! Pure arithmetic. Invariants of a [`Layout`], kept by every function here:
//! - the product of the non-zero dims, times the element size, is at most `isize::MAX`;
//! - when no dim is zero, every reachable element offset is that of an element of the storage.

use smallvec::SmallVec;

use crate::error::excerpt;
use crate::{DType, TensorError};

/// Dims of a shape; six fit without an allocation.
pub(crate) type Dims = SmallVec<[usize; 6]>;
/// Strides in elements.
pub(crate) type Strides = SmallVec<[isize; 6]>;

/// Shape, strides in elements, and the offset of the first element; immutable, so that derived properties needed in every
/// call are computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Dims,
    strides: Strides,
    offset: usize,
    len: usize,
    is_contiguous: bool,
}

/// The number of elements of a shape, if a tensor of that shape and dtype may exist.
///
/// Rejects any shape whose non-zero dims multiply to more than `isize::MAX` bytes, so that the product of any of the dims
/// of an accepted shape fits a `usize` (and an `isize`).
pub fn element_count(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    let limit = isize::MAX as usize / dtype.size_in_bytes();
    let extent = shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim.max(1)))
        .filter(|&extent| extent <= limit)
        .ok_or_else(|| TensorError::SizeOverflow {
            shape: excerpt(shape),
            dtype,
        })?;
    Ok(if shape.contains(&0) { 0 } else { extent })
}

/// Strides of a row-major array of this shape, the last axis fastest, in elements.
///
/// Meaningful for shapes that [`element_count`] accepts; larger ones wrap around.
pub fn row_major_strides(shape: &[usize]) -> SmallVec<[isize; 6]> {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut step = 1usize;
    for (stride, &dim) in strides.iter_mut().zip(shape).rev() {
        *stride = step as isize;
        step = step.wrapping_mul(dim.max(1));
    }
    strides
}

impl Layout {
    /// A layout of a shape already accepted by [`element_count`], with a stride for each axis.
    pub(crate) fn new(shape: Dims, strides: Strides, offset: usize) -> Layout {
        Layout {
            // The product cannot overflow (see the module's invariants).
            len: shape.iter().product(),
            is_contiguous: lie_in_a_row(&shape, &strides),
            shape,
            strides,
            offset,
        }
    }

    /// The row-major layout of a shape already accepted by [`element_count`].
    pub(crate) fn row_major(shape: &[usize]) -> Layout {
        Layout {
            shape: shape.into(),
            strides: row_major_strides(shape),
            offset: 0,
            len: shape.iter().product(),
            is_contiguous: true,
        }
    }

    /// A layout from outside, checked against `elements` of memory.
    pub(crate) fn checked(
        dtype: DType,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        elements: usize,
    ) -> Result<Layout, TensorError> {
        if strides.len() != shape.len() {
            return Err(TensorError::LengthMismatch {
                expected: shape.len(),
                found: strides.len(),
                unit: "strides",
            });
        }
        let out_of_range = || TensorError::StridesOutOfRange {
            shape: excerpt(shape),
            strides: excerpt(strides),
            offset,
            elements,
        };
        let layout = || Layout::new(shape.into(), strides.into(), offset);
        if element_count(dtype, shape)? == 0 {
            return (offset <= elements).then(layout).ok_or_else(out_of_range);
        }
        let mut lowest = offset as i128;
        let mut highest = offset as i128;
        for (&dim, &stride) in shape.iter().zip(strides) {
            let reach = (dim as i128 - 1) * stride as i128;
            if reach < 0 {
                lowest = lowest.saturating_add(reach);
            } else {
                highest = highest.saturating_add(reach);
            }
        }
        if lowest < 0 || highest >= elements as i128 {
            Err(out_of_range())
        } else {
            Ok(layout())
        }
    }

    /// The size of each axis.
    #[inline]
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance between indices on each axis.
    #[inline]
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The position of the first element.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Shape and strides, to build a different layout.
    pub(crate) fn axes(&self) -> (Dims, Strides) {
        (self.shape.clone(), self.strides.clone())
    }

    /// The number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the elements are contiguous in row-major order.
    #[inline]
    pub(crate) fn is_contiguous(&self) -> bool {
        self.is_contiguous
    }

    /// The same elements with a different shape, without moving any, if strides can express it.
    ///
    /// Axes are grouped: a run of old axes that covers as many elements as a run of new axes must be mergeable (each stride
    /// the next one's times the next size).
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Layout> {
        if self.is_contiguous() {
            return Some(Layout {
                offset: self.offset,
                ..Layout::row_major(shape)
            });
        }
        let old: SmallVec<[(usize, isize); 6]> = self
            .shape
            .iter()
            .copied()
            .zip(self.strides.iter().copied())
            .filter(|&(dim, _)| dim != 1)
            .collect();
        let mut strides: Strides = SmallVec::new();
        let (mut next_old, mut next_new) = (0, 0);
        while next_new < shape.len() && next_old < old.len() {
            let (first_old, first_new) = (next_old, next_new);
            let (mut old_size, mut new_size) = (old.get(next_old)?.0, *shape.get(next_new)?);
            while old_size != new_size {
                if old_size < new_size {
                    next_old += 1;
                    old_size *= old.get(next_old)?.0;
                } else {
                    next_new += 1;
                    new_size *= shape.get(next_new)?;
                }
            }
            next_old += 1;
            next_new += 1;
            let group = old.get(first_old..next_old)?;
            let mergeable = group.windows(2).all(|pair| match pair {
                [(_, outer), (dim, inner)] => Some(*outer) == (*dim as isize).checked_mul(*inner),
                _ => true,
            });
            if !mergeable {
                return None;
            }
            let last_stride = group.last()?.1;
            let within = row_major_strides(shape.get(first_new..next_new)?);
            for stride in within {
                strides.push(stride.checked_mul(last_stride)?);
            }
        }
        // The remaining axes on either side have size 1.
        strides.resize(shape.len(), 0);
        Some(Layout::new(shape.into(), strides, self.offset))
    }
}

/// Whether elements of this shape are contiguous in row-major order.
fn lie_in_a_row(shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1;
    for (&dim, &stride) in shape.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected *= dim as isize;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_the_boundary_are_counted_or_refused() {
        let max = isize::MAX as usize;
        assert_eq!(element_count(DType::U8, &[]).unwrap(), 1);
        assert_eq!(element_count(DType::U8, &[max]).unwrap(), max);
        assert_eq!(element_count(DType::U8, &[0, max]).unwrap(), 0);
        assert_eq!(element_count(DType::F64, &[max / 8]).unwrap(), max / 8);
        for (dtype, shape) in [
            (DType::U8, vec![max + 1]),
            (DType::F64, vec![max / 8 + 1]),
            (DType::F16, vec![usize::MAX]),
            (DType::U8, vec![1 << 32, 1 << 32]),
            (DType::U8, vec![0, 1 << 32, 1 << 32]),
            (DType::U8, vec![usize::MAX, 0, usize::MAX]),
            (DType::U8, vec![2; 64]),
        ] {
            let error = element_count(dtype, &shape).unwrap_err();
            assert_eq!(error.code(), "E0340", "{shape:?}");
        }
    }

    #[test]
    fn row_major_strides_treat_zero_as_one() {
        assert_eq!(row_major_strides(&[2, 3, 4]).as_slice(), [12, 4, 1]);
        assert_eq!(row_major_strides(&[2, 0, 4]).as_slice(), [4, 4, 1]);
        assert!(row_major_strides(&[]).is_empty());
    }

    #[test]
    fn out_of_bounds_strides_are_refused() {
        let check = |shape: &[usize], strides: &[isize], offset| {
            Layout::checked(DType::F32, shape, strides, offset, 6)
                .map(|layout| layout.len())
                .map_err(|e| e.code())
        };
        assert_eq!(check(&[2, 3], &[3, 1], 0), Ok(6));
        assert_eq!(check(&[2, 3], &[-3, -1], 5), Ok(6));
        assert_eq!(check(&[100, 100], &[0, 0], 5), Ok(10_000));
        assert_eq!(check(&[2, 3], &[3, 1], 1), Err("E0353"));
        assert_eq!(check(&[2, 3], &[-3, 1], 2), Err("E0353"));
        assert_eq!(check(&[2], &[isize::MAX], 0), Err("E0353"));
        assert_eq!(check(&[3, 3], &[isize::MIN, isize::MIN], 0), Err("E0353"));
        assert_eq!(check(&[0, 3], &[isize::MAX, isize::MIN], 6), Ok(0));
        assert_eq!(check(&[0], &[1], 7), Err("E0353"));
        assert_eq!(check(&[2], &[1, 1], 0), Err("E0341"));
        assert_eq!(check(&[1 << 62, 2], &[0, 0], 0), Err("E0340"));
    }

    #[test]
    fn reshape_is_a_view_if_strides_allow_it() {
        // A transposed matrix with its outer axis split, and its axes merged.
        let transposed = Layout::new([6, 4].as_slice().into(), [1, 6].as_slice().into(), 2);
        let split = transposed.reshaped(&[2, 3, 1, 4]).unwrap();
        assert_eq!(
            (split.strides.as_slice(), split.offset),
            ([3, 1, 24, 6].as_slice(), 2)
        );
        assert_eq!(transposed.reshaped(&[24]), None);
        // A broadcast axis merges with another broadcast axis only.
        let (shape, strides) = ([2, 3, 4].as_slice(), [0, 0, 1].as_slice());
        let broadcast = Layout::new(shape.into(), strides.into(), 0);
        assert_eq!(
            broadcast.reshaped(&[6, 4]).unwrap().strides.as_slice(),
            [0, 1]
        );
        assert_eq!(broadcast.reshaped(&[24]), None);
        assert_eq!(
            broadcast.reshaped(&[2, 3, 4, 1]).unwrap().shape.as_slice(),
            [2, 3, 4, 1]
        );
    }
}
