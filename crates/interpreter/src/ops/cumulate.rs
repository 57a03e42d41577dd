//! Running reductions along an axis, each element rounded once from the wide running value.

use super::lanes::{from_lanes, lanes_along};
use crate::context::EvaluateContext;
use crate::element::{Accumulator, Join, Number};
use crate::fault::OpFault;
use kiln_ir::CumulateFunction;
use kiln_tensor::{Tensor, match_dtype};

/// A running reduction, like the operand.
pub(crate) fn cumulate(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    function: CumulateFunction,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Result<Tensor, OpFault> {
    let lanes = lanes_along(ctx, x, axis)?;
    let size = x.shape()[axis].max(1);
    let mut result = Tensor::zeros(x.dtype(), lanes.shape())?;
    match_dtype!(x.dtype(), T => {
        let (from, to) = (lanes.as_slice::<T>()?, result.as_mut_slice::<T>()?);
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
            let pairs = from.iter().zip(to);
            if reverse {
                run(ctx, pairs.rev(), function, exclusive)?;
            } else {
                run(ctx, pairs, function, exclusive)?;
            }
        }
    });
    Ok(from_lanes(&result, axis)?)
}

fn run<'a, T: Number>(
    ctx: &EvaluateContext<'_>,
    pairs: impl Iterator<Item = (&'a T, &'a mut T)>,
    function: CumulateFunction,
    exclusive: bool,
) -> Result<(), OpFault> {
    let (mut acc, join): (T::Wide, Join<T::Wide>) = match function {
        CumulateFunction::Sum => (T::Wide::ZERO, Accumulator::plus),
        CumulateFunction::Product => (T::Wide::ONE, Accumulator::times),
        CumulateFunction::Max => (T::Wide::LOWEST, Accumulator::larger),
        CumulateFunction::Min => (T::Wide::HIGHEST, Accumulator::smaller),
    };
    for (from, to) in pairs {
        ctx.work(1)?;
        let next = join(acc, from.to_wide());
        *to = T::narrow(if exclusive { acc } else { next });
        acc = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::Op;
    use kiln_tensor::Element;

    fn run<T: Element>(
        x: &Tensor,
        function: CumulateFunction,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Vec<T> {
        let op = Op::Cumulate {
            function,
            axis,
            exclusive,
            reverse,
        };
        TestSizes::new().values(&op, std::slice::from_ref(x)).1
    }

    #[test]
    fn running_sums_may_be_reverse_and_exclusive() {
        let x = tensor(&[4], &[1i32, 2, 3, 4]);
        let sum = CumulateFunction::Sum;
        assert_eq!(run::<i32>(&x, sum, 0, false, false), [1, 3, 6, 10]);
        assert_eq!(run::<i32>(&x, sum, 0, true, false), [0, 1, 3, 6]);
        assert_eq!(run::<i32>(&x, sum, 0, false, true), [10, 9, 7, 4]);
        assert_eq!(run::<i32>(&x, sum, 0, true, true), [9, 7, 4, 0]);
        let x = x.reshape(&[2, 2]).unwrap();
        assert_eq!(run::<i32>(&x, sum, 0, false, false), [1, 2, 4, 6]);
    }

    #[test]
    fn running_min_max_and_product_handle_nan_overflow_and_empty_axes() {
        let x = tensor(&[4], &[2.0f32, f32::NAN, 5.0, 1.0]);
        let max = run::<f32>(&x, CumulateFunction::Max, 0, true, false);
        assert_eq!(max[..2], [f32::NEG_INFINITY, 2.0]);
        assert!(max[2].is_nan() && max[3].is_nan());
        let x = tensor(&[3], &[3u8, 100, 2]);
        assert_eq!(
            run::<u8>(&x, CumulateFunction::Product, 0, false, false),
            [3, 44, 88]
        );
        assert_eq!(
            run::<u8>(&x, CumulateFunction::Min, 0, true, false),
            [255, 3, 3]
        );
        assert!(
            run::<f32>(
                &tensor::<f32>(&[2, 0], &[]),
                CumulateFunction::Sum,
                1,
                false,
                false
            )
            .is_empty()
        );
        assert!(
            run::<f32>(
                &tensor::<f32>(&[0, 2], &[]),
                CumulateFunction::Sum,
                0,
                false,
                false
            )
            .is_empty()
        );
    }
}
