//! The position of each window's maximum, tap by tap. A NaN wins over every number; ties go to the first tap.

use super::arg_reduce::rank_order;
use super::geometry::Geometry;
use super::pool::windows;
use crate::context::EvaluateContext;
use crate::element::Number;
use crate::fault::OpFault;
use kiln_ir::{Extremum, Integers, Window};
use kiln_tensor::{DType, Tensor, match_dtype};
use std::cmp::Ordering;

/// `[N, C, spatial..] -> i64 [N, C, spatial..]`: row-major positions over the operand's spatial axes.
pub(crate) fn arg_pool(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    size: &Integers,
    window: &Window,
) -> Result<Tensor, OpFault> {
    let (geometry, shape) = windows(ctx, x, size, window)?;
    let mut result = Tensor::zeros(DType::I64, &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let x = ctx.dense(x)?;
    match_dtype!(x.dtype(), T => {
        let (x, inputs) = (x.as_slice::<T>()?, geometry.n_inputs());
        let channels = result.as_mut_slice::<i64>()?.chunks_exact_mut(geometry.n_outputs());
        for (at, positions) in channels.enumerate() {
            positions_in_channel::<T>(ctx, &geometry, &x[at * inputs..(at + 1) * inputs], positions)?;
        }
    });
    Ok(result)
}

fn positions_in_channel<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    x: &[T],
    positions: &mut [i64],
) -> Result<(), OpFault> {
    for (row, positions) in positions.chunks_exact_mut(geometry.n_columns()).enumerate() {
        positions.fill(-1);
        for tap in 0..geometry.n_taps() {
            ctx.work(geometry.n_columns())?;
            let Some(reads) = geometry.reads(row, 0..geometry.n_columns(), tap) else {
                continue;
            };
            for (nth, best) in positions[reads.columns].iter_mut().enumerate() {
                let place = reads.first + nth * reads.step;
                let is_better = usize::try_from(*best).map_or(true, |best| {
                    rank_order(x[place], x[best], Extremum::Max) == Ordering::Less
                });
                if is_better {
                    *best = place as i64;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::Op;
    use proptest::prelude::*;

    /// A spatial axis: size of the window, stride, dilation, low, high.
    type Axis = [i64; 5];

    fn run(x: &Tensor, axes: &[Axis]) -> Result<Tensor, OpFault> {
        let mut sizes = TestSizes::new();
        let column = |part: usize| -> Vec<i64> { axes.iter().map(|axis| axis[part]).collect() };
        let window = Window {
            strides: column(1).into(),
            dilations: column(2).into(),
            low: sizes.dims(&column(3)),
            high: sizes.dims(&column(4)),
        };
        let size = column(0).into();
        sizes.run(&Op::ArgPool { size, window }, std::slice::from_ref(x))
    }

    fn positions(x: &Tensor, axes: &[Axis]) -> Vec<i64> {
        run(x, axes).unwrap().to_vec().unwrap()
    }

    #[test]
    fn ties_go_to_the_first_and_nan_wins() {
        let x = tensor(&[1, 1, 5], &[2i32, 7, 7, 1, 7]);
        assert_eq!(positions(&x, &[[3, 1, 1, 0, 0]]), [1, 1, 2]);
        assert_eq!(positions(&x, &[[2, 2, 2, 0, 0]]), [2, 2]);
        let zeros = tensor(&[1, 1, 2], &[-0.0f32, 0.0]);
        assert_eq!(positions(&zeros, &[[2, 1, 1, 0, 0]]), [0]);
        let x = tensor(&[1, 1, 4], &[f32::INFINITY, f32::NAN, f32::NAN, 1.0]);
        assert_eq!(positions(&x, &[[2, 1, 1, 0, 0]]), [1, 1, 2]);
    }

    #[test]
    fn padding_never_wins_and_alone_has_no_position() {
        let x = tensor(&[1, 1, 2], &[f32::NEG_INFINITY; 2]);
        assert_eq!(positions(&x, &[[3, 1, 1, 3, 2]]), [-1, 0, 0, 0, 1]);
        let x = tensor(&[1, 1, 1], &[i8::MIN]);
        assert_eq!(positions(&x, &[[1, 1, 1, 1, 1]]), [-1, 0, -1]);
        let nothing = tensor::<u8>(&[1, 2, 0], &[]);
        assert_eq!(positions(&nothing, &[[1, 1, 1, 1, 0]]), [-1, -1]);
    }

    #[test]
    fn each_channel_counts_from_its_start() {
        let x = tensor(&[1, 2, 2, 2], &[1u8, 2, 3, 4, 9, 8, 7, 6]);
        let all = [[2, 1, 1, 0, 0]; 2];
        assert_eq!(positions(&x, &all), [3, 0]);
        let single = tensor(&[2, 1], &[1.0f32, 2.0]);
        assert_eq!(positions(&single, &[]), [0, 0]);
    }

    #[test]
    fn windows_that_do_not_fit_are_faults() {
        let x = tensor(&[1, 1, 1], &[1.0f32]);
        assert_eq!(run(&x, &[[3, 1, 1, 0, 0]]).unwrap_err().code(), "E0823");
        assert_eq!(run(&x, &[[3, 2, 1, 0, 0]]).unwrap().shape(), [1, 1, 0]);
        assert_eq!(run(&x, &[[0, 1, 1, 0, 0]]).unwrap_err().code(), "E0829");
        assert_eq!(run(&x, &[]).unwrap_err().code(), "E0829");
    }

    proptest! {
        #[test]
        fn positions_equal_the_definition(
            rows in (0i64..6, (1i64..4, 1i64..4, 1i64..3, 0i64..4, 0i64..4)),
            columns in (0i64..6, (1i64..4, 1i64..4, 1i64..3, 0i64..4, 0i64..4)),
            elements in prop::collection::vec(prop::sample::select(vec![0.0, -1.0, 2.0, f32::NAN, f32::NEG_INFINITY]), 25),
        ) {
            let sizes = [rows.0, columns.0];
            let axes = [rows.1, columns.1].map(|(size, stride, dilation, low, high)| [size, stride, dilation, low, high]);
            let shape = [1, 1, sizes[0] as usize, sizes[1] as usize];
            let x = tensor(&shape, &elements[..shape[2] * shape[3]]);
            let Ok(found) = run(&x, &axes) else { return Ok(()) };
            let mut expected = Vec::new();
            for at in 0..found.len() as i64 {
                let at = [at / found.shape()[3] as i64, at % found.shape()[3] as i64];
                let mut best: Option<(f32, i64)> = None;
                for tap in 0..axes[0][0] * axes[1][0] {
                    let tap = [tap / axes[1][0], tap % axes[1][0]];
                    let place = [0, 1].map(|i| at[i] * axes[i][1] + tap[i] * axes[i][2] - axes[i][3]);
                    if (0..2).any(|i| place[i] < 0 || place[i] >= sizes[i]) {
                        continue;
                    }
                    let place = place[0] * sizes[1] + place[1];
                    let element = elements[place as usize];
                    if best.is_none_or(|(held, _)| element > held || element.is_nan() && !held.is_nan()) {
                        best = Some((element, place));
                    }
                }
                expected.push(best.map_or(-1, |(_, place)| place));
            }
            prop_assert_eq!(found.to_vec::<i64>().unwrap(), expected);
        }
    }
}
