//! The first elements of each lane when sorted; of equal ones the lower index first.

use super::expect;
use super::interrupt::{Interrupt, PIECE, Stopped};
use super::order::{Ranked, rank};
use crate::error::NativeError;
use kiln_backend::BuiltinOperand;
use kiln_tensor::{DType, TensorError};
use std::cmp::Ordering;

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
        interrupt: Interrupt<'_>,
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
        let mut order = reserved(size.min(if k > PIECE { size } else { 2 * PIECE }))?;
        // Long lists are sorted by merging, if more than a piece of them is requested.
        let mut room = reserved(if k > PIECE { size } else { 0 })?;
        let mut done = 0;
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
                done += size;
                if done > PIECE {
                    done = 0;
                    if interrupt.check().is_err() {
                        return Ok(());
                    }
                }
                let found = match k > PIECE {
                    true => {
                        order.clear();
                        order.extend(0..size);
                        interrupt.sort(&mut order, &mut room, before)
                    }
                    false => first_of(interrupt, size, k, &mut order, before),
                };
                if found.is_err() {
                    return Ok(());
                }
                for (place, &from) in order[..k].iter().enumerate() {
                    values[place * stride + lane] = at(from);
                    indices[place * stride + lane] = from as i64;
                }
            }
        }
        Ok(())
    }
}

/// Moves the first `k` of the indices below `size` to the front, in order; `k` is at most a piece.
fn first_of(
    interrupt: Interrupt<'_>,
    size: usize,
    k: usize,
    order: &mut Vec<usize>,
    before: impl Fn(&usize, &usize) -> Ordering,
) -> Result<(), Stopped> {
    order.clear();
    let mut next = 0;
    // The best so far, with up to a piece of the following ones.
    while next < size {
        if next > 0 {
            interrupt.check()?;
        }
        let end = size.min(next + PIECE.max(k));
        order.extend(next..end);
        next = end;
        if k < order.len() {
            order.select_nth_unstable_by(k, &before);
            order.truncate(k);
        }
    }
    order.sort_unstable_by(before);
    Ok(())
}

fn reserved(size: usize) -> Result<Vec<usize>, TensorError> {
    let mut indices = Vec::new();
    indices
        .try_reserve_exact(size)
        .map_err(|_| TensorError::Allocation {
            bytes: size.saturating_mul(size_of::<usize>()),
        })?;
    Ok(indices)
}
