//! Reading at computed positions.
//!
//! An index counts from the end when negative. It is checked when an element is read through it:
//! a result without elements checks none.

use crate::buffer::{collect, dense, filled};
use crate::evaluate::{EvaluateContext, Shape};
use crate::fault::OpFault;
use kiln_tensor::{DType, Element, Offsets, Tensor, match_dtype, row_major_strides};

/// `x: [a.., n, b..], indices: [i..] -> [a.., i.., b..]`.
pub(crate) fn gather(x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor, OpFault> {
    let size = axis_size(x, axis)?;
    let (outer, inner) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let shape: Shape = outer
        .iter()
        .chain(indices.shape())
        .chain(inner)
        .copied()
        .collect();
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let at = positions(&integers(indices)?, size)?;
    let inner: usize = inner.iter().product();
    match_dtype!(x.dtype(), T => {
        let x = dense(x)?;
        let x = x.as_slice::<T>()?;
        let blocks = x.chunks_exact(size * inner);
        for (block, out) in blocks.zip(result.as_mut_slice::<T>()?.chunks_exact_mut(at.len() * inner)) {
            for (&index, out) in at.iter().zip(out.chunks_exact_mut(inner)) {
                out.copy_from_slice(&block[index * inner..(index + 1) * inner]);
            }
        }
    });
    Ok(result)
}

/// `x, indices -> like indices`: along `axis` the position is the index.
pub(crate) fn gather_elements(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Tensor, OpFault> {
    let mut result = Tensor::zeros(x.dtype(), indices.shape())?;
    if result.is_empty() {
        return Ok(result);
    }
    let offsets = element_offsets(ctx, x, indices, axis)?;
    match_dtype!(x.dtype(), T => {
        let x = dense(x)?;
        let x = x.as_slice::<T>()?;
        for (element, &offset) in result.as_mut_slice::<T>()?.iter_mut().zip(&offsets) {
            *element = x[offset];
        }
    });
    Ok(result)
}

/// `x, indices: [batch.., i.., k] -> [batch.., i.., rest of x]`.
pub(crate) fn gather_nd(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    batch_axes: usize,
) -> Result<Tensor, OpFault> {
    let address = Address::new(ctx, x, indices, batch_axes)?;
    let rest = &x.shape()[batch_axes + address.depth..];
    let shape: Shape = indices.shape()[..indices.rank() - 1]
        .iter()
        .chain(rest)
        .copied()
        .collect();
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let starts = address.starts(x, indices)?;
    let inner = address.inner;
    match_dtype!(x.dtype(), T => {
        let x = dense(x)?;
        let x = x.as_slice::<T>()?;
        for (out, &start) in result.as_mut_slice::<T>()?.chunks_exact_mut(inner).zip(&starts) {
            out.copy_from_slice(&x[start..start + inner]);
        }
    });
    Ok(result)
}

/// How the last axis of an index tensor addresses the blocks of another.
pub(crate) struct Address {
    batch_axes: usize,
    /// How many axes one index tuple addresses.
    depth: usize,
    /// The elements of one addressed block.
    pub(crate) inner: usize,
}

impl Address {
    pub(crate) fn new(
        ctx: &EvaluateContext<'_>,
        x: &Tensor,
        indices: &Tensor,
        batch_axes: usize,
    ) -> Result<Self, OpFault> {
        let depth = match indices.shape().split_last() {
            Some((&depth, outer)) if batch_axes <= outer.len() && batch_axes <= x.rank() => depth,
            _ => {
                return Err(OpFault::malformed(format!(
                    "{batch_axes} batch axes with indices of rank {}",
                    indices.rank()
                )));
            }
        };
        if depth > x.rank() - batch_axes {
            return Err(OpFault::Limit {
                what: "axes addressed by an index",
                given: depth as u64,
                limit: (x.rank() - batch_axes) as u64,
            });
        }
        let pairs = x.shape().iter().zip(indices.shape()).take(batch_axes);
        if let Some((&left_size, &right_size)) =
            pairs.into_iter().find(|(left, right)| left != right)
        {
            return Err(OpFault::SizeMismatch {
                what: "batch axes",
                left: ctx.describe(0, x),
                left_size,
                right: ctx.describe(1, indices),
                right_size,
            });
        }
        Ok(Self {
            batch_axes,
            depth,
            inner: x.shape()[batch_axes + depth..].iter().product(),
        })
    }

    /// Where each addressed block starts in `x`, row-major.
    pub(crate) fn starts(&self, x: &Tensor, indices: &Tensor) -> Result<Vec<usize>, OpFault> {
        let strides = row_major_strides(x.shape());
        let batches: usize = x.shape()[..self.batch_axes].iter().product();
        let tuples: usize = indices.shape()[..indices.rank() - 1].iter().product();
        let batch_stride: usize = x.shape()[self.batch_axes..].iter().product();
        let indices = integers(indices)?;
        let per_batch = (tuples / batches.max(1)).max(1);
        let mut starts = collect(
            tuples,
            (0..tuples).map(|tuple| tuple / per_batch * batch_stride),
        )?;
        for (at, start) in starts.iter_mut().enumerate() {
            for axis in 0..self.depth {
                let position = at * self.depth + axis;
                let size = x.shape()[self.batch_axes + axis];
                let index = in_range(indices[position], position, size)?;
                *start += index * strides[self.batch_axes + axis].unsigned_abs();
            }
        }
        Ok(starts)
    }
}

/// The offset in `x`, row-major, of each element that `indices` addresses along `axis`.
pub(crate) fn element_offsets(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Vec<usize>, OpFault> {
    let size = axis_size(x, axis)?;
    if x.rank() != indices.rank() {
        return Err(OpFault::malformed(format!(
            "indices of rank {} for a tensor of rank {}",
            indices.rank(),
            x.rank()
        )));
    }
    for (at, (&left_size, &right_size)) in x.shape().iter().zip(indices.shape()).enumerate() {
        if at != axis && right_size > left_size {
            return Err(OpFault::SizeMismatch {
                what: "axes beside the indexed one",
                left: ctx.describe(0, x),
                left_size,
                right: ctx.describe(1, indices),
                right_size,
            });
        }
    }
    let mut strides = row_major_strides(x.shape());
    let along = strides[axis].unsigned_abs();
    strides[axis] = 0;
    let index_values = integers(indices)?;
    let mut offsets = collect(
        index_values.len(),
        Offsets::new(indices.shape(), &strides, 0),
    )?;
    for (position, (offset, &index)) in offsets.iter_mut().zip(&index_values).enumerate() {
        *offset += in_range(index, position, size)? * along;
    }
    Ok(offsets)
}

/// The elements of an integer tensor. A `u64` too large becomes the largest `i64`, which no axis has.
pub(crate) fn integers(indices: &Tensor) -> Result<Vec<i64>, OpFault> {
    fn widened<T: Element + TryInto<i64>>(indices: &Tensor) -> Result<Vec<i64>, OpFault> {
        let indices = dense(indices)?;
        let elements = indices.as_slice::<T>()?;
        Ok(collect(
            elements.len(),
            elements
                .iter()
                .map(|&index| index.try_into().unwrap_or(i64::MAX)),
        )?)
    }
    match indices.dtype() {
        DType::I64 => widened::<i64>(indices),
        DType::I32 => widened::<i32>(indices),
        DType::I16 => widened::<i16>(indices),
        DType::I8 => widened::<i8>(indices),
        DType::U64 => widened::<u64>(indices),
        DType::U32 => widened::<u32>(indices),
        DType::U16 => widened::<u16>(indices),
        DType::U8 => widened::<u8>(indices),
        other => Err(OpFault::malformed(format!(
            "expected integers, found {other}"
        ))),
    }
}

/// An index counted from the start, if it lies in `-size..size`.
fn in_range(index: i64, position: usize, size: usize) -> Result<usize, OpFault> {
    let from_start = if index < 0 {
        i128::from(index) + size as i128
    } else {
        index.into()
    };
    match usize::try_from(from_start) {
        Ok(from_start) if from_start < size => Ok(from_start),
        _ => Err(OpFault::IndexOutOfRange {
            index,
            position,
            size,
        }),
    }
}

/// All indices counted from the start.
fn positions(indices: &[i64], size: usize) -> Result<Vec<usize>, OpFault> {
    let mut positions = filled(indices.len(), 0)?;
    for (at, (&index, position)) in indices.iter().zip(&mut positions).enumerate() {
        *position = in_range(index, at, size)?;
    }
    Ok(positions)
}

fn axis_size(x: &Tensor, axis: usize) -> Result<usize, OpFault> {
    x.shape()
        .get(axis)
        .copied()
        .ok_or_else(|| OpFault::malformed(format!("axis {axis} of a tensor of rank {}", x.rank())))
}
