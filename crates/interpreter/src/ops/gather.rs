//! Gathers: reads at computed positions.
//!
//! An index counts from the end when negative. It is checked when an element is read through it:
//! a result without elements checks none.

use crate::context::{EvaluateContext, Shape};
use crate::fault::OpFault;
use crate::interrupt::Interrupt;
use kiln_tensor::{DType, Element, Offsets, Tensor, match_dtype, row_major_strides};

/// `x: [a.., n, b..], indices: [i..] -> [a.., i.., b..]`.
pub(crate) fn gather(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Tensor, OpFault> {
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
    let at = positions(ctx, &integers(ctx.interrupt(), indices)?, size)?;
    let inner: usize = inner.iter().product();
    match_dtype!(x.dtype(), T => {
        let x = ctx.dense(x)?;
        let x = x.as_slice::<T>()?;
        let blocks = x.chunks_exact(size * inner);
        for (block, out) in blocks.zip(result.as_mut_slice::<T>()?.chunks_exact_mut(at.len() * inner)) {
            for (&index, out) in at.iter().zip(out.chunks_exact_mut(inner)) {
                ctx.work(1)?;
                ctx.interrupt().copy(out, &block[index * inner..(index + 1) * inner])?;
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
        let x = ctx.dense(x)?;
        let x = x.as_slice::<T>()?;
        for (element, &offset) in result.as_mut_slice::<T>()?.iter_mut().zip(&offsets) {
            ctx.work(1)?;
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
    let starts = address.starts(ctx, x, indices)?;
    let inner = address.inner;
    match_dtype!(x.dtype(), T => {
        let x = ctx.dense(x)?;
        let x = x.as_slice::<T>()?;
        for (out, &start) in result.as_mut_slice::<T>()?.chunks_exact_mut(inner).zip(&starts) {
            ctx.work(1)?;
            ctx.interrupt().copy(out, &x[start..start + inner])?;
        }
    });
    Ok(result)
}

/// How the last axis of an index tensor addresses the blocks of another.
pub(crate) struct Address {
    batch_axes: usize,
    /// The number of axes that one index tuple addresses.
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

    /// The start of each addressed block in `x`, row-major.
    pub(crate) fn starts(
        &self,
        ctx: &EvaluateContext<'_>,
        x: &Tensor,
        indices: &Tensor,
    ) -> Result<Vec<usize>, OpFault> {
        let strides = row_major_strides(x.shape());
        let batches: usize = x.shape()[..self.batch_axes].iter().product();
        let tuples: usize = indices.shape()[..indices.rank() - 1].iter().product();
        let batch_stride: usize = x.shape()[self.batch_axes..].iter().product();
        let indices = integers(ctx.interrupt(), indices)?;
        let per_batch = (tuples / batches.max(1)).max(1);
        let batches = (0..tuples).map(|tuple| tuple / per_batch * batch_stride);
        let mut starts = ctx.interrupt().collect(tuples, batches)?;
        for (at, start) in starts.iter_mut().enumerate() {
            ctx.work(self.depth)?;
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
                what: "axes other than the indexed one",
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
    let index_values = integers(ctx.interrupt(), indices)?;
    let rows = Offsets::new(indices.shape(), &strides, 0);
    let mut offsets = ctx.interrupt().collect(index_values.len(), rows)?;
    for (position, (offset, &index)) in offsets.iter_mut().zip(&index_values).enumerate() {
        ctx.work(1)?;
        *offset += in_range(index, position, size)? * along;
    }
    Ok(offsets)
}

/// The elements of an integer tensor. A `u64` that is too large becomes the maximum `i64`, which is out of bounds on every
/// axis.
pub(crate) fn integers(interrupt: Interrupt<'_>, indices: &Tensor) -> Result<Vec<i64>, OpFault> {
    fn widened<T: Element + TryInto<i64>>(
        interrupt: Interrupt<'_>,
        indices: &Tensor,
    ) -> Result<Vec<i64>, OpFault> {
        let indices = interrupt.dense(indices)?;
        let elements = indices.as_slice::<T>()?;
        let widened = elements
            .iter()
            .map(|&index| index.try_into().unwrap_or(i64::MAX));
        interrupt.collect(elements.len(), widened)
    }
    match indices.dtype() {
        DType::I64 => widened::<i64>(interrupt, indices),
        DType::I32 => widened::<i32>(interrupt, indices),
        DType::I16 => widened::<i16>(interrupt, indices),
        DType::I8 => widened::<i8>(interrupt, indices),
        DType::U64 => widened::<u64>(interrupt, indices),
        DType::U32 => widened::<u32>(interrupt, indices),
        DType::U16 => widened::<u16>(interrupt, indices),
        DType::U8 => widened::<u8>(interrupt, indices),
        other => Err(OpFault::malformed(format!(
            "expected integers, found {other}"
        ))),
    }
}

/// An index counted from the start, if it is in `-size..size`.
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
fn positions(
    ctx: &EvaluateContext<'_>,
    indices: &[i64],
    size: usize,
) -> Result<Vec<usize>, OpFault> {
    let mut positions = ctx.interrupt().filled(indices.len(), 0)?;
    for (at, (&index, position)) in indices.iter().zip(&mut positions).enumerate() {
        ctx.work(1)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting, tensor};
    use kiln_ir::Op;
    use proptest::prelude::*;

    fn run(op: Op, x: &Tensor, indices: &Tensor) -> Result<Tensor, OpFault> {
        TestSizes::new().run(&op, &[x.clone(), indices.clone()])
    }

    #[test]
    fn gather_puts_the_indices_shape_in_place_of_the_axis() {
        let x = counting(&[2, 3, 2]);
        let y = run(Op::Gather { axis: 1 }, &x, &tensor(&[2, 1], &[-1i8, 0])).unwrap();
        assert_eq!(y.shape(), [2, 2, 1, 2]);
        assert_eq!(
            y.to_vec::<f32>().unwrap(),
            [4.0, 5.0, 0.0, 1.0, 10.0, 11.0, 6.0, 7.0]
        );
        let one = run(
            Op::Gather { axis: 0 },
            &x.transpose(&[2, 0, 1]).unwrap(),
            &Tensor::scalar(1u16),
        )
        .unwrap();
        assert_eq!(one.shape(), [2, 3]);
        assert_eq!(
            one.to_vec::<f32>().unwrap(),
            [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
        );
    }

    #[test]
    fn indices_may_have_any_integer_type_and_no_other() {
        let x = tensor(&[3], &[10i64, 20, 30]);
        let last = |indices: Tensor| {
            run(Op::Gather { axis: 0 }, &x, &indices)?
                .item::<i64>()
                .map_err(OpFault::from)
        };
        for index in [
            Tensor::scalar(2i64),
            Tensor::scalar(2i32),
            Tensor::scalar(2i16),
            Tensor::scalar(2i8),
            Tensor::scalar(2u64),
            Tensor::scalar(2u32),
            Tensor::scalar(2u8),
        ] {
            assert_eq!(last(index).unwrap(), 30);
        }
        assert_eq!(last(Tensor::scalar(u64::MAX)).unwrap_err().code(), "E0822");
        assert_eq!(last(Tensor::scalar(i64::MIN)).unwrap_err().code(), "E0822");
        assert_eq!(last(Tensor::scalar(2.0f32)).unwrap_err().code(), "E0829");
        assert_eq!(
            run(Op::Gather { axis: 1 }, &x, &Tensor::scalar(0i64))
                .unwrap_err()
                .code(),
            "E0829"
        );
    }

    #[test]
    fn indices_of_an_empty_gather_are_not_checked() {
        let far = tensor(&[1], &[99i64]);
        let x = Tensor::zeros(DType::F32, &[3, 0]).unwrap();
        assert_eq!(
            run(Op::Gather { axis: 0 }, &x, &far).unwrap().shape(),
            [1, 0]
        );
        let none = tensor::<i64>(&[0], &[]);
        assert_eq!(
            run(Op::Gather { axis: 0 }, &counting(&[0, 2]), &none)
                .unwrap()
                .shape(),
            [0, 2]
        );
        let none = tensor::<i64>(&[0, 2], &[]);
        assert_eq!(
            run(Op::GatherElements { axis: 1 }, &counting(&[1, 2]), &none)
                .unwrap()
                .shape(),
            [0, 2]
        );
        assert_eq!(
            run(Op::GatherNd { batch_axes: 0 }, &counting(&[2, 2, 2]), &none)
                .unwrap()
                .shape(),
            [0, 2]
        );
    }

    #[test]
    fn gather_elements_reads_along_one_axis() {
        let x = counting(&[3, 2]);
        let y = run(
            Op::GatherElements { axis: 0 },
            &x,
            &tensor(&[2, 2], &[0i64, 2, -1, 0]),
        )
        .unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 5.0, 4.0, 1.0]);
        let y = run(
            Op::GatherElements { axis: 1 },
            &x,
            &tensor(&[1, 3], &[1i64, 0, 1]),
        )
        .unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 0.0, 1.0]);
        for (shape, code) in [(vec![2, 3], "E0821"), (vec![6], "E0829")] {
            let indices = Tensor::zeros(DType::I64, &shape).unwrap();
            assert_eq!(
                run(Op::GatherElements { axis: 0 }, &x, &indices)
                    .unwrap_err()
                    .code(),
                code
            );
        }
        let fault = run(
            Op::GatherElements { axis: 0 },
            &x,
            &tensor(&[1, 1], &[3i64]),
        )
        .unwrap_err();
        assert_eq!(fault.code(), "E0822");
    }

    #[test]
    fn gather_nd_refuses_mismatched_operands() {
        let x = counting(&[2, 3]);
        for (indices, batch_axes, code) in [
            (tensor(&[1, 3], &[0i64, 0, 0]), 0, "E0825"),
            (tensor(&[3, 1], &[0i64, 0, 0]), 1, "E0821"),
            (tensor(&[1], &[0i64]), 1, "E0829"),
            (Tensor::scalar(0i64), 0, "E0829"),
            (tensor(&[1, 2], &[0i64, 3]), 0, "E0822"),
        ] {
            let fault = run(Op::GatherNd { batch_axes }, &x, &indices).unwrap_err();
            assert_eq!(fault.code(), code, "{fault}");
        }
        let whole = run(
            Op::GatherNd { batch_axes: 0 },
            &x,
            &tensor::<i64>(&[2, 0], &[]),
        )
        .unwrap();
        assert_eq!(whole.shape(), [2, 2, 3]);
    }

    proptest! {
        #[test]
        fn gather_nd_equals_its_definition(
            batch in prop::collection::vec(1usize..3, 0..3),
            addressed in prop::collection::vec(1usize..4, 0..3),
            rest in prop::collection::vec(1usize..3, 0..2),
            lines in 1usize..4,
            seed in prop::collection::vec(-4i64..4, 64),
        ) {
            let x = counting(&[batch.clone(), addressed.clone(), rest.clone()].concat());
            let indices_shape = [batch.clone(), vec![lines, addressed.len()]].concat();
            let n: usize = indices_shape.iter().product();
            let depth = addressed.len();
            let values: Vec<i64> = (0..n)
                .map(|i| seed[i % 64].rem_euclid(2 * addressed[i % depth] as i64) - addressed[i % depth] as i64)
                .collect();
            let y = run(Op::GatherNd { batch_axes: batch.len() }, &x, &tensor(&indices_shape, &values)).unwrap();
            prop_assert_eq!(y.shape(), &[batch.clone(), vec![lines], rest.clone()].concat()[..]);
            let inner: usize = rest.iter().product();
            for (at, found) in y.to_vec::<f32>().unwrap().into_iter().enumerate() {
                let (tuple, offset) = (at / inner, at % inner);
                let mut expected = tuple / lines;
                for (axis, &size) in addressed.iter().enumerate() {
                    let index = values[tuple * depth + axis];
                    expected = expected * size + index.rem_euclid(size as i64) as usize;
                }
                prop_assert_eq!(found, (expected * inner + offset) as f32);
            }
        }
    }
}
