//! The position of the extremum along an axis. A NaN wins over every number; ties are resolved as for equal numbers.

use super::lanes::{from_lanes, lanes_along};
use crate::context::EvaluateContext;
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::Extremum;
use kiln_tensor::{DType, Tensor, match_dtype};
use std::cmp::Ordering;

/// The index of the extremum along `axis`, as i64.
pub(crate) fn arg_reduce(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    extremum: Extremum,
    axis: usize,
    keep_dims: bool,
    last: bool,
) -> Result<Tensor, OpFault> {
    let lanes = lanes_along(ctx, x, axis)?;
    let size = x.shape()[axis];
    let mut shape = lanes.shape().to_vec();
    shape[x.rank() - 1] = 1;
    let mut result = Tensor::zeros(DType::I64, &shape)?;
    if size == 0 && !result.is_empty() {
        return Err(OpFault::EmptyAxis {
            what: "the index of an extremum",
            operand: ctx.describe(0, x),
        });
    }
    match_dtype!(x.dtype(), T => {
        let indices = result.as_mut_slice::<i64>()?;
        for (lane, index) in lanes.as_slice::<T>()?.chunks_exact(size.max(1)).zip(indices) {
            *index = index_of_extremum(ctx, lane, extremum, last)? as i64;
        }
    });
    let result = from_lanes(&result, axis)?;
    if keep_dims {
        return Ok(result);
    }
    let mut shape = x.shape().to_vec();
    shape.remove(axis);
    Ok(result.reshape(&shape)?)
}

fn index_of_extremum<T: Number>(
    ctx: &EvaluateContext<'_>,
    lane: &[T],
    extremum: Extremum,
    last: bool,
) -> Result<usize, OpFault> {
    let mut best = 0;
    for (index, &element) in lane.iter().enumerate().skip(1) {
        ctx.work(1)?;
        let order = rank_order(element, lane[best], extremum);
        if order == Ordering::Less || (last && order == Ordering::Equal) {
            best = index;
        }
    }
    Ok(best)
}

/// `Less` when `left` comes before `right`: NaN first, then the extremum. Zeros are equal.
pub(crate) fn rank_order<T: Number>(left: T, right: T, extremum: Extremum) -> Ordering {
    let (left, right) = (left.to_wide(), right.to_wide());
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => {
            let ascending = left.partial_cmp(&right).unwrap_or(Ordering::Equal);
            if extremum == Extremum::Max {
                ascending.reverse()
            } else {
                ascending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::Op;

    fn run(x: &Tensor, extremum: Extremum, axis: usize, last: bool) -> (Vec<usize>, Vec<i64>) {
        let op = Op::ArgReduce {
            extremum,
            axis,
            keep_dims: false,
            last,
        };
        TestSizes::new().values(&op, std::slice::from_ref(x))
    }

    #[test]
    fn ties_go_to_the_first_or_the_last() {
        let x = tensor(&[2, 4], &[3i32, 1, 3, 1, 5, 5, 5, 5]);
        assert_eq!(run(&x, Extremum::Max, 1, false), (vec![2], vec![0, 0]));
        assert_eq!(run(&x, Extremum::Max, 1, true), (vec![2], vec![2, 3]));
        assert_eq!(run(&x, Extremum::Min, 1, false).1, [1, 0]);
        assert_eq!(run(&x, Extremum::Min, 0, true), (vec![4], vec![0, 0, 0, 0]));
        let zeros = tensor(&[2], &[-0.0f32, 0.0]);
        assert_eq!(run(&zeros, Extremum::Max, 0, false).1, [0]);
    }

    #[test]
    fn nan_wins_for_max_and_min() {
        let x = tensor(
            &[4],
            &[f32::INFINITY, f32::NAN, f32::NEG_INFINITY, f32::NAN],
        );
        for extremum in [Extremum::Max, Extremum::Min] {
            assert_eq!(run(&x, extremum, 0, false).1, [1]);
            assert_eq!(run(&x, extremum, 0, true).1, [3]);
        }
    }

    #[test]
    fn arg_reduce_of_an_empty_axis_is_a_fault() {
        let op = Op::ArgReduce {
            extremum: Extremum::Max,
            axis: 0,
            keep_dims: true,
            last: false,
        };
        let sizes = TestSizes::new();
        let fault = sizes.run(&op, &[tensor::<f32>(&[0, 2], &[])]).unwrap_err();
        assert_eq!(fault.code(), "E0824");
        assert_eq!(
            sizes.values::<i64>(&op, &[tensor::<f32>(&[0, 0], &[])]).0,
            [1, 0]
        );
        assert_eq!(
            sizes.values::<i64>(&op, &[tensor::<f32>(&[2, 0], &[])]).0,
            [1, 0]
        );
        assert_eq!(
            sizes.values::<i64>(&op, &[tensor(&[2, 1], &[1u8, 2])]),
            (vec![1, 1], vec![1])
        );
    }
}
