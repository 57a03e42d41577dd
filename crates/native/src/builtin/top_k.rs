//! The first elements of each lane when sorted; of equal ones the lower index first.

use super::expect;
use super::order::{Ranked, rank};
use crate::error::NativeError;
use kiln_kernel::BuiltinOperand;
use kiln_tensor::{DType, TensorError};

/// The sizes of a search: lanes of `size` elements, `stride` elements apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopK {
    size: usize,
    stride: usize,
    k: usize,
    largest: bool,
}

impl TopK {
    /// Checks the operands: results have the shape of `x` with `k` elements along the axis.
    pub(crate) fn check(
        x: BuiltinOperand<'_>,
        values: BuiltinOperand<'_>,
        indices: BuiltinOperand<'_>,
        axis: usize,
        largest: bool,
    ) -> Result<Self, NativeError> {
        let (Some(&size), Some(&k)) = (x.shape.get(axis), values.shape.get(axis)) else {
            let expected = format_args!("an axis below {}", x.shape.len()).to_string();
            return Err(NativeError::mismatch("top-k", expected, axis));
        };
        if k > size {
            let expected = format_args!("at most {size} elements").to_string();
            return Err(NativeError::mismatch("top-k", expected, k));
        }
        let mut shape = x.shape.to_vec();
        shape[axis] = k;
        expect("the values of top-k", values, x.dtype, &shape)?;
        expect("the indices of top-k", indices, DType::I64, &shape)?;
        let stride = x.shape[axis + 1..].iter().product();
        Ok(Self {
            size,
            stride,
            k,
            largest,
        })
    }

    /// Searches every lane.
    pub(crate) fn run<T: Ranked>(
        &self,
        x: &[T],
        values: &mut [T],
        indices: &mut [i64],
    ) -> Result<(), NativeError> {
        let Self {
            size,
            stride,
            k,
            largest,
        } = *self;
        if values.is_empty() {
            return Ok(());
        }
        let mut order: Vec<usize> = Vec::new();
        order
            .try_reserve_exact(size)
            .map_err(|_| TensorError::Allocation {
                bytes: size * size_of::<usize>(),
            })?;
        let blocks = x.chunks_exact(size * stride);
        let results = values
            .chunks_exact_mut(k * stride)
            .zip(indices.chunks_exact_mut(k * stride));
        for (x, (values, indices)) in blocks.zip(results) {
            for lane in 0..stride {
                let at = |index: usize| x[index * stride + lane];
                let before = |&left: &usize, &right: &usize| {
                    rank(at(left), at(right), largest).then(left.cmp(&right))
                };
                order.clear();
                order.extend(0..size);
                if k < size {
                    order.select_nth_unstable_by(k, before);
                }
                order[..k].sort_unstable_by(before);
                for (place, &from) in order[..k].iter().enumerate() {
                    values[place * stride + lane] = at(from);
                    indices[place * stride + lane] = from as i64;
                }
            }
        }
        Ok(())
    }
}
