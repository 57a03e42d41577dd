//! Reductions over some axes: kept axes first, then each result from one contiguous run.
//!
//! Accumulated from the first element to the last in [`Number::Wide`], rounded once.

use crate::context::EvaluateContext;
use crate::element::{Accumulator, Join, Number};
use crate::fault::OpFault;
use kiln_ir::{Indices, ReduceFunction};
use kiln_tensor::{Tensor, match_dtype};

/// A reduction over `axes`.
pub(crate) fn reduce(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    function: ReduceFunction,
    axes: &Indices,
    keep_dims: bool,
) -> Result<Tensor, OpFault> {
    if axes.iter().any(|&axis| axis >= x.rank()) {
        return Err(OpFault::malformed(format!(
            "axes {axes:?} of a tensor of rank {}",
            x.rank()
        )));
    }
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let permutation: Vec<usize> = kept.clone().chain(axes.iter().copied()).collect();
    let runs = ctx.dense(&x.transpose(&permutation)?)?;
    let run: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let shape: Vec<usize> = if keep_dims {
        (0..x.rank())
            .map(|axis| {
                if axes.contains(&axis) {
                    1
                } else {
                    x.shape()[axis]
                }
            })
            .collect()
    } else {
        kept.map(|axis| x.shape()[axis]).collect()
    };
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    match_dtype!(x.dtype(), T => reduce_runs::<T>(ctx, runs.as_slice::<T>()?, run, function, result.as_mut_slice::<T>()?)?);
    Ok(result)
}

fn reduce_runs<T: Number>(
    ctx: &EvaluateContext<'_>,
    x: &[T],
    run: usize,
    function: ReduceFunction,
    result: &mut [T],
) -> Result<(), OpFault> {
    let (start, join) = fold_of::<T::Wide>(function);
    for (at, element) in result.iter_mut().enumerate() {
        ctx.work(1)?;
        let mut folded = start;
        for piece in ctx.interrupt().pieces(&x[at * run..(at + 1) * run]) {
            let join = |acc, element: &T| join(acc, element.to_wide());
            folded = piece?.iter().fold(folded, join);
        }
        let folded = match function {
            ReduceFunction::Mean => folded
                .over(run)
                .ok_or_else(|| OpFault::malformed("a mean of integers over nothing"))?,
            _ => folded,
        };
        *element = T::narrow(folded);
    }
    Ok(())
}

/// The initial value of a fold, and its step.
fn fold_of<A: Accumulator>(function: ReduceFunction) -> (A, Join<A>) {
    match function {
        ReduceFunction::Sum | ReduceFunction::Mean => (A::ZERO, A::plus),
        ReduceFunction::Product => (A::ONE, A::times),
        ReduceFunction::Max | ReduceFunction::Any => (A::LOWEST, A::larger),
        ReduceFunction::Min | ReduceFunction::All => (A::HIGHEST, A::smaller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting, tensor};
    use kiln_ir::Op;
    use kiln_tensor::{DType, Element, f16};

    fn reduced<T: Element>(
        x: &Tensor,
        function: ReduceFunction,
        axes: &[usize],
        keep_dims: bool,
    ) -> (Vec<usize>, Vec<T>) {
        let op = Op::Reduce {
            function,
            axes: axes.into(),
            keep_dims,
        };
        TestSizes::new().values::<T>(&op, std::slice::from_ref(x))
    }

    #[test]
    fn reduce_over_any_set_of_axes() {
        let x = counting(&[2, 3, 2]);
        let sum = ReduceFunction::Sum;
        assert_eq!(
            reduced::<f32>(&x, sum, &[1], false),
            (vec![2, 2], vec![6.0, 9.0, 24.0, 27.0])
        );
        assert_eq!(
            reduced::<f32>(&x, sum, &[0, 2], true),
            (vec![1, 3, 1], vec![14.0, 22.0, 30.0])
        );
        assert_eq!(
            reduced::<f32>(&x, sum, &[0, 1, 2], false),
            (vec![], vec![66.0])
        );
        assert_eq!(reduced::<f32>(&x, sum, &[], false).0, [2, 3, 2]);
    }

    #[test]
    fn reduce_over_an_empty_axis_gives_the_neutral_element() {
        let nothing = tensor::<f32>(&[2, 0], &[]);
        let of = |function| reduced::<f32>(&nothing, function, &[1], false).1[0];
        assert_eq!(
            (of(ReduceFunction::Sum), of(ReduceFunction::Product)),
            (0.0, 1.0)
        );
        assert_eq!(
            (of(ReduceFunction::Max), of(ReduceFunction::Min)),
            (f32::NEG_INFINITY, f32::INFINITY)
        );
        assert!(of(ReduceFunction::Mean).is_nan());
        let integers = tensor::<i8>(&[0], &[]);
        assert_eq!(
            reduced::<i8>(&integers, ReduceFunction::Max, &[0], false).1,
            [i8::MIN]
        );
        assert_eq!(
            reduced::<i8>(&integers, ReduceFunction::Min, &[0], false).1,
            [i8::MAX]
        );
        let bools = tensor::<bool>(&[0], &[]);
        assert_eq!(
            reduced::<bool>(&bools, ReduceFunction::Any, &[0], false).1,
            [false]
        );
        assert_eq!(
            reduced::<bool>(&bools, ReduceFunction::All, &[0], false).1,
            [true]
        );
    }

    #[test]
    fn reduce_propagates_nan_and_infinities() {
        let x = tensor(&[3], &[1.0f32, f32::NAN, f32::INFINITY]);
        for function in [
            ReduceFunction::Sum,
            ReduceFunction::Max,
            ReduceFunction::Min,
            ReduceFunction::Mean,
        ] {
            assert!(
                reduced::<f32>(&x, function, &[0], false).1[0].is_nan(),
                "{function:?}"
            );
        }
        let x = tensor(&[2], &[f32::INFINITY, f32::NEG_INFINITY]);
        assert!(reduced::<f32>(&x, ReduceFunction::Sum, &[0], false).1[0].is_nan());
    }

    #[test]
    fn sums_are_rounded_once_and_integers_wrap() {
        // In f16 the running sum would stick at 2048.
        let ones = Tensor::full(&[4096], f16::ONE).unwrap();
        assert_eq!(
            reduced::<f16>(&ones, ReduceFunction::Sum, &[0], false).1,
            [f16::from_f32(4096.0)]
        );
        let bytes = tensor(&[3], &[100u8, 100, 100]);
        assert_eq!(
            reduced::<u8>(&bytes, ReduceFunction::Sum, &[0], false).1,
            [44]
        );
        let bools = tensor(&[2, 2], &[true, false, true, true]);
        assert_eq!(
            reduced::<bool>(&bools, ReduceFunction::All, &[1], false).1,
            [false, true]
        );
        assert_eq!(
            reduced::<bool>(&bools, ReduceFunction::Any, &[0], false).1,
            [true, true]
        );
    }

    #[test]
    fn reduce_refuses_missing_axes() {
        let op = Op::Reduce {
            function: ReduceFunction::Sum,
            axes: [1].into_iter().collect(),
            keep_dims: false,
        };
        let fault = TestSizes::new()
            .run(&op, &[Tensor::zeros(DType::I64, &[2]).unwrap()])
            .unwrap_err();
        assert_eq!(fault.code(), "E0829");
    }
}
