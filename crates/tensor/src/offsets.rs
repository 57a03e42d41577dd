//! An odometer over strides: the element offsets of a view in row-major order of its indices.

use smallvec::SmallVec;

/// Iterates the element offsets of a strided view, the last axis fastest.
///
/// Works for any strides, zero and negative ones included, without recursion and without a
/// division per element.
///
/// ```
/// use kiln_tensor::Offsets;
///
/// let columns: Vec<usize> = Offsets::new(&[3, 2], &[1, 3], 0).collect();
/// assert_eq!(columns, [0, 3, 1, 4, 2, 5]);
/// ```
#[derive(Clone, Debug)]
pub struct Offsets {
    /// Size, stride and current index of each axis except the last.
    outer: SmallVec<[OuterAxis; 6]>,
    /// Offset of the first element of the current row.
    row: isize,
    /// Position in the current row.
    column: usize,
    n_columns: usize,
    column_stride: isize,
    remaining: usize,
}

#[derive(Clone, Copy, Debug)]
struct OuterAxis {
    size: usize,
    stride: isize,
    index: usize,
}

impl Offsets {
    /// The offsets of a view with this shape and these strides, from `offset`.
    ///
    /// The shape is one that [`crate::element_count`] accepts; missing strides count as 0.
    pub fn new(shape: &[usize], strides: &[isize], offset: usize) -> Offsets {
        let stride_of = |axis: usize| strides.get(axis).copied().unwrap_or(0);
        let (n_columns, outer) = match shape.split_last() {
            Some((&last, outer)) => (last, outer),
            None => (1, shape),
        };
        Offsets {
            outer: outer
                .iter()
                .enumerate()
                .map(|(axis, &size)| OuterAxis {
                    size,
                    stride: stride_of(axis),
                    index: 0,
                })
                .collect(),
            row: offset as isize,
            column: 0,
            n_columns,
            column_stride: stride_of(shape.len().saturating_sub(1)),
            remaining: shape.iter().product(),
        }
    }

    /// Calls `visit` with the first offset, the stride and the length of each row, a row being a walk along the last axis.
    /// Faster than element by element.
    pub fn for_each_row(mut self, mut visit: impl FnMut(usize, isize, usize)) {
        if self.remaining == 0 {
            return;
        }
        let n_rows = self.remaining / self.n_columns;
        for _ in 0..n_rows {
            visit(self.row as usize, self.column_stride, self.n_columns);
            self.next_row();
        }
    }

    fn next_row(&mut self) {
        self.column = 0;
        for axis in self.outer.iter_mut().rev() {
            axis.index += 1;
            if axis.index < axis.size {
                self.row = self.row.wrapping_add(axis.stride);
                return;
            }
            self.row = self
                .row
                .wrapping_sub(axis.stride.wrapping_mul(axis.size as isize - 1));
            axis.index = 0;
        }
    }
}

impl Iterator for Offsets {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let offset = self
            .row
            .wrapping_add(self.column_stride.wrapping_mul(self.column as isize));
        self.column += 1;
        if self.column == self.n_columns {
            self.next_row();
        }
        Some(offset as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Offsets {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scalars_and_empty_views() {
        assert_eq!(Offsets::new(&[], &[], 7).collect::<Vec<_>>(), [7]);
        assert_eq!(Offsets::new(&[3, 0, 2], &[0, 0, 1], 0).count(), 0);
        assert_eq!(Offsets::new(&[0], &[1], 0).len(), 0);
        Offsets::new(&[2, 0], &[0, 1], 0).for_each_row(|_, _, _| panic!("no rows"));
    }

    #[test]
    fn negative_and_zero_strides() {
        assert_eq!(
            Offsets::new(&[2, 2], &[0, -1], 1).collect::<Vec<_>>(),
            [1, 0, 1, 0]
        );
    }

    proptest! {
        #[test]
        fn offsets_are_the_sums_of_index_times_stride(
            axes in prop::collection::vec((0usize..4, -5isize..6), 0..5),
        ) {
            let (shape, strides): (Vec<usize>, Vec<isize>) = axes.into_iter().unzip();
            let offset = 1000;
            let n: usize = shape.iter().product();
            let expected: Vec<usize> = (0..n)
                .map(|flat| {
                    let mut rest = flat;
                    let mut at = offset as isize;
                    for (&dim, &stride) in shape.iter().zip(&strides).rev() {
                        at += (rest % dim) as isize * stride;
                        rest /= dim;
                    }
                    at as usize
                })
                .collect();
            let walked: Vec<usize> = Offsets::new(&shape, &strides, offset).collect();
            prop_assert_eq!(&walked, &expected);
            let mut by_rows = Vec::new();
            Offsets::new(&shape, &strides, offset).for_each_row(|start, stride, len| {
                by_rows.extend((0..len as isize).map(|i| (start as isize + i * stride) as usize));
            });
            prop_assert_eq!(by_rows, expected);
        }
    }
}
