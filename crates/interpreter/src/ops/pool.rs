//! Pooling windows, tap by tap. Floats accumulate in `f64` and are rounded once; integers wrap, and
//! their means are truncated.

use super::geometry::{Geometry, check_window};
use crate::context::{EvaluateContext, Shape};
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::{Integers, PoolFunction, Window};
use kiln_tensor::{Tensor, match_dtype};

/// The maximum number of taps of one window.
const TAP_LIMIT: usize = 1 << 32;

/// The windows of a pool over `x: [N, C, spatial..]`, and the shape of the result.
pub(super) fn windows(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    size: &Integers,
    window: &Window,
) -> Result<(Geometry, Shape), OpFault> {
    let [n, channels, input @ ..] = x.shape() else {
        return Err(OpFault::malformed(format!(
            "expected an operand of rank 2 or more, found {}",
            x.rank()
        )));
    };
    check_window(window, input.len())?;
    let kernel: Shape = size
        .iter()
        .filter_map(|&size| usize::try_from(size).ok().filter(|&size| size > 0))
        .collect();
    if kernel.len() != input.len() {
        return Err(OpFault::malformed(format!(
            "expected a positive size for each of {} axes",
            input.len()
        )));
    }
    let taps = kernel
        .iter()
        .try_fold(1usize, |taps, &size| taps.checked_mul(size))
        .unwrap_or(usize::MAX);
    if taps > TAP_LIMIT {
        return Err(OpFault::Limit {
            what: "elements of a window",
            given: taps as u64,
            limit: TAP_LIMIT as u64,
        });
    }
    let geometry = Geometry::forward(ctx, input, &kernel, window)?;
    let shape: Shape = [*n, *channels]
        .into_iter()
        .chain(geometry.output_shape(input.len()))
        .collect();
    Ok((geometry, shape))
}

/// `[N, C, spatial..] -> [N, C, spatial..]`.
pub(crate) fn pool(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    function: PoolFunction,
    size: &Integers,
    window: &Window,
) -> Result<Tensor, OpFault> {
    let (geometry, shape) = windows(ctx, x, size, window)?;
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let x = ctx.dense(x)?;
    match_dtype!(x.dtype(), T => {
        let (x, inputs) = (x.as_slice::<T>()?, geometry.n_inputs());
        for (at, y) in result.as_mut_slice::<T>()?.chunks_exact_mut(geometry.n_outputs()).enumerate() {
            pool_channel::<T>(ctx, &geometry, function, &x[at * inputs..(at + 1) * inputs], y)?;
        }
    });
    Ok(result)
}

fn pool_channel<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    function: PoolFunction,
    x: &[T],
    y: &mut [T],
) -> Result<(), OpFault> {
    let start = if function == PoolFunction::Max {
        T::Wide::LOWEST
    } else {
        T::Wide::ZERO
    };
    let mut acc = ctx.interrupt().filled(geometry.n_columns(), start)?;
    let mut counts = ctx.interrupt().filled(geometry.n_columns(), 0usize)?;
    for (row, y) in y.chunks_exact_mut(geometry.n_columns()).enumerate() {
        acc.fill(start);
        counts.fill(0);
        for tap in 0..geometry.n_taps() {
            ctx.work(geometry.n_columns())?;
            let Some(reads) = geometry.reads(row, 0..geometry.n_columns(), tap) else {
                continue;
            };
            let from = x[reads.first..].iter().step_by(reads.step);
            let places = acc[reads.columns.clone()]
                .iter_mut()
                .zip(&mut counts[reads.columns]);
            for ((acc, count), from) in places.zip(from) {
                *acc = match function {
                    PoolFunction::Max => acc.larger(from.to_wide()),
                    _ => acc.plus(from.to_wide()),
                };
                *count += 1;
            }
        }
        for ((element, &acc), &count) in y.iter_mut().zip(&acc).zip(&counts) {
            let count = match function {
                PoolFunction::Max | PoolFunction::Sum => None,
                PoolFunction::Mean => Some(count),
                PoolFunction::MeanWithPadding => Some(geometry.n_taps()),
            };
            let pooled = match count {
                None => acc,
                Some(count) => acc
                    .over(count)
                    .ok_or_else(|| OpFault::malformed("a mean of integers over padding alone"))?,
            };
            *element = T::narrow(pooled);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting, tensor};
    use kiln_ir::Op;

    /// One spatial axis: size, stride, dilation, low, high.
    fn run(
        x: &Tensor,
        function: PoolFunction,
        [size, stride, dilation, low, high]: [i64; 5],
    ) -> Result<Tensor, OpFault> {
        let mut sizes = TestSizes::new();
        let window = Window {
            strides: [stride].into_iter().collect(),
            dilations: [dilation].into_iter().collect(),
            low: sizes.dims(&[low]),
            high: sizes.dims(&[high]),
        };
        let op = Op::Pool {
            function,
            size: [size].into_iter().collect(),
            window,
        };
        sizes.run(&op, std::slice::from_ref(x))
    }

    fn values(x: &Tensor, function: PoolFunction, window: [i64; 5]) -> Vec<f32> {
        run(x, function, window).unwrap().to_vec().unwrap()
    }

    #[test]
    fn each_pool_function_treats_padding_differently() {
        let x = tensor(&[1, 1, 3], &[-1.0f32, -2.0, -6.0]);
        let window = [3, 2, 1, 1, 1];
        assert_eq!(values(&x, PoolFunction::Max, window), [-1.0, -2.0]);
        assert_eq!(values(&x, PoolFunction::Sum, window), [-3.0, -8.0]);
        assert_eq!(values(&x, PoolFunction::Mean, window), [-1.5, -4.0]);
        assert_eq!(
            values(&x, PoolFunction::MeanWithPadding, window),
            [-1.0, (-8.0f64 / 3.0) as f32]
        );
    }

    #[test]
    fn pool_windows_that_hold_only_padding() {
        let x = tensor(&[1, 1, 1], &[5.0f32]);
        let window = [1, 1, 1, 1, 0];
        assert_eq!(
            values(&x, PoolFunction::Max, window),
            [f32::NEG_INFINITY, 5.0]
        );
        assert_eq!(values(&x, PoolFunction::Sum, window), [0.0, 5.0]);
        assert!(values(&x, PoolFunction::Mean, window)[0].is_nan());
        let integers = tensor(&[1, 1, 1], &[5i32]);
        assert_eq!(
            run(&integers, PoolFunction::Mean, window)
                .unwrap_err()
                .code(),
            "E0829"
        );
        assert_eq!(
            run(&integers, PoolFunction::Max, window)
                .unwrap()
                .to_vec::<i32>()
                .unwrap(),
            [i32::MIN, 5]
        );
    }

    #[test]
    fn nan_propagates_and_dilation_skips() {
        let x = tensor(&[1, 2, 3], &[1.0f32, f32::NAN, 3.0, 4.0, 5.0, 6.0]);
        let pooled = values(&x, PoolFunction::Max, [2, 1, 2, 0, 0]);
        assert_eq!(pooled, [3.0, 6.0]);
        assert!(values(&x, PoolFunction::Max, [2, 1, 1, 0, 0])[0].is_nan());
    }

    #[test]
    fn pool_of_empty_operands_and_invalid_windows() {
        let empty = Tensor::zeros(kiln_tensor::DType::F32, &[0, 2, 4]).unwrap();
        assert_eq!(
            run(&empty, PoolFunction::Max, [2, 2, 1, 0, 0])
                .unwrap()
                .shape(),
            [0, 2, 2]
        );
        assert_eq!(
            run(&counting(&[1, 1, 1]), PoolFunction::Max, [3, 1, 1, 0, 0])
                .unwrap_err()
                .code(),
            "E0823"
        );
        assert_eq!(
            run(&counting(&[1, 1, 1]), PoolFunction::Max, [3, 2, 1, 0, 0])
                .unwrap()
                .shape(),
            [1, 1, 0]
        );
        for window in [[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]] {
            assert_eq!(
                run(&counting(&[1, 1, 1]), PoolFunction::Max, window)
                    .unwrap_err()
                    .code(),
                "E0829"
            );
        }
        let far = [i64::MAX, i64::MAX, i64::MAX, i64::MAX, i64::MAX];
        assert_eq!(
            run(&counting(&[1, 1, 1]), PoolFunction::Sum, far)
                .unwrap_err()
                .code(),
            "E0825"
        );
        let mut sizes = TestSizes::new();
        let window = Window {
            strides: Integers::new(),
            dilations: Integers::new(),
            low: sizes.dims(&[]),
            high: sizes.dims(&[]),
        };
        let op = Op::Pool {
            function: PoolFunction::Sum,
            size: Integers::new(),
            window,
        };
        assert_eq!(
            sizes.values::<f32>(&op, &[counting(&[1, 2])]),
            (vec![1, 2], vec![0.0, 1.0])
        );
    }
}
