//! A part of a tensor replaced by another tensor, at a position that is data.

use super::gather::integers;
use crate::context::EvaluateContext;
use crate::fault::OpFault;
use kiln_tensor::{Tensor, match_dtype, row_major_strides};

/// `x, at: int[axes], update -> like x`: `update` begins at `at` in the result, along `axes`.
pub(crate) fn update_slice(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    at: &Tensor,
    update: &Tensor,
    axes: &[usize],
) -> Result<Tensor, OpFault> {
    check_operands(ctx, x, at, update, axes)?;
    if update.is_empty() {
        return Ok(x.clone());
    }
    let mut start = vec![0; x.rank()];
    let positions = integers(ctx.interrupt(), at)?;
    for (position, (&axis, &index)) in axes.iter().zip(&positions).enumerate() {
        let (size, length) = (x.shape()[axis], update.shape()[axis]);
        let first = usize::try_from(index).ok();
        let is_inside = |first: &usize| first.checked_add(length).is_some_and(|end| end <= size);
        start[axis] = first.filter(is_inside).ok_or_else(|| {
            // The first element of a part that is out of bounds.
            let outside = match first {
                Some(first) => first.max(size) as i64,
                None => index,
            };
            OpFault::IndexOutOfRange {
                index: outside,
                position,
                size,
            }
        })?;
    }
    let update = ctx.dense(update)?;
    let strides = row_major_strides(x.shape());
    let length = update.shape().last().copied().unwrap_or(1);
    let outer = &update.shape()[..update.rank().saturating_sub(1)];
    match_dtype!(x.dtype(), T => {
        let mut result = ctx.interrupt().copied(x)?;
        let elements = result.as_mut_slice::<T>()?;
        for (number, row) in update.as_slice::<T>()?.chunks_exact(length).enumerate() {
            ctx.work(1)?;
            let mut rest = number;
            let mut offset = start.last().copied().unwrap_or(0);
            for (axis, &size) in outer.iter().enumerate().rev() {
                offset += (start[axis] + rest % size) * strides[axis] as usize;
                rest /= size;
            }
            ctx.interrupt().copy(&mut elements[offset..offset + length], row)?;
        }
        Ok(result)
    })
}

/// Checks ranks, dtypes and the sizes of the axes other than `axes`.
fn check_operands(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    at: &Tensor,
    update: &Tensor,
    axes: &[usize],
) -> Result<(), OpFault> {
    let is_sound = x.dtype() == update.dtype()
        && x.rank() == update.rank()
        && at.shape() == [axes.len()]
        && axes.iter().all(|&axis| axis < x.rank());
    if !is_sound {
        let (at, update) = (ctx.describe(1, at), ctx.describe(2, update));
        return Err(OpFault::malformed(format!(
            "{update} at {at} along axes {axes:?} of {}",
            ctx.describe(0, x)
        )));
    }
    let sizes = x.shape().iter().zip(update.shape()).enumerate();
    let mut beside = sizes.filter(|(axis, _)| !axes.contains(axis));
    match beside.find(|(_, (size, given))| size != given) {
        None => Ok(()),
        Some((_, (&left_size, &right_size))) => Err(OpFault::SizeMismatch {
            what: "axes other than those of an update",
            left: ctx.describe(0, x),
            left_size,
            right: ctx.describe(2, update),
            right_size,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::{Indices, Op};

    fn run(axes: &[usize], x: &Tensor, at: &[i64], update: &Tensor) -> Result<Tensor, OpFault> {
        let op = Op::UpdateSlice {
            axes: Indices::from_slice(axes),
        };
        let at = tensor(&[at.len()], at);
        TestSizes::new().run(&op, &[x.clone(), at, update.clone()])
    }

    fn counting(shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let elements: Vec<f32> = (0..count).map(|k| k as f32).collect();
        tensor(shape, &elements)
    }

    #[test]
    fn update_slice_replaces_the_part_at_its_start() {
        let x = counting(&[4, 3]);
        let update = tensor(&[1, 3], &[-1.0f32, -2.0, -3.0]);
        let result = run(&[0], &x, &[2], &update).unwrap();
        let expected = [
            0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -1.0, -2.0, -3.0, 9.0, 10.0, 11.0,
        ];
        assert_eq!(result.to_vec::<f32>().unwrap(), expected);
        let update = tensor(&[2, 1], &[-1.0f32, -2.0]);
        let result = run(&[0, 1], &x, &[2, 1], &update).unwrap();
        let expected = [
            0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, 8.0, 9.0, -2.0, 11.0,
        ];
        assert_eq!(result.to_vec::<f32>().unwrap(), expected);
        assert_eq!(x.to_vec::<f32>().unwrap()[7], 7.0);
    }

    #[test]
    fn update_slice_out_of_bounds_is_a_fault() {
        let x = counting(&[4, 3]);
        let update = counting(&[2, 3]);
        assert!(run(&[0], &x, &[2], &update).is_ok());
        for at in [3, 4, -1, i64::MAX, i64::MIN] {
            let fault = run(&[0], &x, &[at], &update).unwrap_err();
            assert!(
                matches!(fault, OpFault::IndexOutOfRange { size: 4, .. }),
                "{at}: {fault}"
            );
        }
        assert!(run(&[0], &x, &[0], &counting(&[5, 3])).is_err());
        let fault = run(&[0], &x, &[0], &counting(&[1, 2])).unwrap_err();
        assert!(matches!(fault, OpFault::SizeMismatch { .. }));
    }

    #[test]
    fn an_empty_update_slice_changes_and_checks_nothing() {
        let x = counting(&[2, 3]);
        let result = run(&[0], &x, &[99], &counting(&[0, 3])).unwrap();
        assert!(result.bit_equal(&x));
        let none = counting(&[]);
        let result = run(&[], &none, &[], &tensor(&[], &[5.0f32])).unwrap();
        assert_eq!(result.to_vec::<f32>().unwrap(), [5.0]);
    }
}
