//! Borders: each axis has a map from result index to operand index, or to the border.

use crate::context::{EvaluateContext, Shape};
use crate::fault::OpFault;
use kiln_ir::{Dims, PadMode};
use kiln_tensor::{Element, Tensor, match_dtype};

/// A border around `x`; `value` is its element in constant mode.
pub(crate) fn pad(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    value: &Tensor,
    low: &Dims,
    high: &Dims,
    mode: PadMode,
) -> Result<Tensor, OpFault> {
    if low.len() != x.rank() || high.len() != x.rank() {
        return Err(OpFault::malformed(format!(
            "expected a padding for each of {} axes",
            x.rank()
        )));
    }
    let low = ctx.sizes("a padding", low)?;
    let high = ctx.sizes("a padding", high)?;
    // A size beyond `usize` exceeds the limit on tensors too, which rejects it.
    let shape: Shape = x
        .shape()
        .iter()
        .zip(&low)
        .zip(&high)
        .map(|((n, l), h)| n.saturating_add(*l).saturating_add(*h))
        .collect();
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let mut maps = Vec::with_capacity(x.rank());
    for ((&size, &low), &padded) in x.shape().iter().zip(&low).zip(&shape) {
        if size == 0 && mode != PadMode::Constant {
            return Err(OpFault::EmptyAxis {
                what: "a border taken from the operand",
                operand: ctx.describe(0, x),
            });
        }
        let sources = (0..padded).map(|at| source_of(at, low, size, mode));
        maps.push(ctx.interrupt().collect(padded, sources)?);
    }
    match_dtype!(x.dtype(), T => {
        let border = if mode == PadMode::Constant { value.item::<T>()? } else { T::default() };
        let x = ctx.dense(x)?;
        copy_mapped::<T>(ctx, (x.as_slice::<T>()?, x.strides()), &maps, border, result.as_mut_slice::<T>()?)?;
    });
    Ok(result)
}

/// The operand's index for a result's index; `None` in a constant border.
fn source_of(at: usize, low: usize, size: usize, mode: PadMode) -> Option<usize> {
    let inside = at.checked_sub(low).filter(|&index| index < size);
    // Both fit: shapes are limited to what `isize` holds.
    let (index, last) = (at as i128 - low as i128, size as i128 - 1);
    let source = match mode {
        PadMode::Constant => return inside,
        PadMode::Edge => index.clamp(0, last),
        PadMode::Wrap => index.rem_euclid(size as i128),
        // Reflection has a period of twice the last index.
        PadMode::Reflect if last == 0 => 0,
        PadMode::Reflect => {
            let phase = index.rem_euclid(2 * last);
            phase.min(2 * last - phase)
        }
    };
    usize::try_from(source).ok()
}

/// Writes every result element: rows of the last axis, under an odometer over the others.
fn copy_mapped<T: Element>(
    ctx: &EvaluateContext<'_>,
    (x, strides): (&[T], &[isize]),
    maps: &[Vec<Option<usize>>],
    border: T,
    result: &mut [T],
) -> Result<(), OpFault> {
    let Some((columns, outer)) = maps.split_last() else {
        result.copy_from_slice(x);
        return Ok(());
    };
    let mut index = vec![0usize; outer.len()];
    for row in result.chunks_exact_mut(columns.len()) {
        let offset = outer
            .iter()
            .zip(&index)
            .zip(strides)
            .try_fold(0, |offset, ((map, &at), &stride)| {
                Some(offset + map[at]? * stride.unsigned_abs())
            });
        for (element, column) in row.iter_mut().zip(columns) {
            ctx.work(1)?;
            *element = match (offset, column) {
                (Some(offset), Some(column)) => x[offset + column],
                _ => border,
            };
        }
        for (at, map) in index.iter_mut().zip(outer).rev() {
            *at += 1;
            if *at < map.len() {
                break;
            }
            *at = 0;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::Op;

    fn padded(x: &Tensor, low: &[i64], high: &[i64], mode: PadMode) -> Result<Tensor, OpFault> {
        let mut sizes = TestSizes::new();
        let op = Op::Pad {
            low: sizes.dims(low),
            high: sizes.dims(high),
            mode,
        };
        sizes.run(&op, &[x.clone(), Tensor::scalar(-1i32)])
    }

    #[test]
    fn each_pad_mode_fills_the_border() {
        let x = tensor(&[3], &[1, 2, 3]);
        for (mode, expected) in [
            (PadMode::Constant, [-1, -1, -1, -1, 1, 2, 3, -1, -1]),
            (PadMode::Edge, [1, 1, 1, 1, 1, 2, 3, 3, 3]),
            (PadMode::Wrap, [3, 1, 2, 3, 1, 2, 3, 1, 2]),
            (PadMode::Reflect, [1, 2, 3, 2, 1, 2, 3, 2, 1]),
        ] {
            let result = padded(&x, &[4], &[2], mode).unwrap();
            assert_eq!(result.to_vec::<i32>().unwrap(), expected, "{mode:?}");
        }
    }

    #[test]
    fn axes_are_padded_independently() {
        let x = tensor(&[2, 2], &[1, 2, 3, 4]).transpose(&[1, 0]).unwrap();
        let result = padded(&x, &[1, 0], &[0, 1], PadMode::Constant).unwrap();
        assert_eq!(result.shape(), [3, 3]);
        assert_eq!(
            result.to_vec::<i32>().unwrap(),
            [-1, -1, -1, 1, 3, -1, 2, 4, -1]
        );
    }

    #[test]
    fn pad_of_scalars_single_elements_and_empty_axes() {
        let scalar = padded(&Tensor::scalar(5i32), &[], &[], PadMode::Edge).unwrap();
        assert_eq!(scalar.item::<i32>().unwrap(), 5);
        let one = padded(&tensor(&[1], &[7]), &[2], &[1], PadMode::Reflect).unwrap();
        assert_eq!(one.to_vec::<i32>().unwrap(), [7; 4]);
        let empty = tensor::<i32>(&[0], &[]);
        assert_eq!(
            padded(&empty, &[1], &[1], PadMode::Constant)
                .unwrap()
                .to_vec::<i32>()
                .unwrap(),
            [-1, -1]
        );
        assert_eq!(
            padded(&empty, &[1], &[1], PadMode::Edge)
                .unwrap_err()
                .code(),
            "E0824"
        );
        assert!(
            padded(&empty, &[0], &[0], PadMode::Edge)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn invalid_paddings_are_faults() {
        let x = tensor(&[1], &[7]);
        assert_eq!(
            padded(&x, &[-1], &[0], PadMode::Edge).unwrap_err().code(),
            "E0823"
        );
        assert_eq!(
            padded(&x, &[i64::MAX], &[i64::MAX], PadMode::Edge)
                .unwrap_err()
                .code(),
            "E0340"
        );
        assert_eq!(
            padded(&x, &[0, 0], &[0, 0], PadMode::Edge)
                .unwrap_err()
                .code(),
            "E0829"
        );
    }
}
