//! Convolutions (cross-correlations with zero padding): floats in `f64`, rounded once; integers
//! exactly, wrapping in the result's dtype. The padding is zeros that are multiplied like any element, so a weight that is
//! not finite makes NaN of it.
//!
//! Each group is a product of its weights with columns that hold the elements read by each output position ("im2col"),
//! built for a bounded number of positions at a time. A group with one input channel (a depthwise convolution) is summed
//! tap by tap instead.

use super::contraction::{self, Product};
use super::elementwise::cast;
use super::geometry::{Geometry, check_window};
use super::matmul::widened;
use crate::context::{EvaluateContext, Shape};
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::Window;
use kiln_tensor::{DType, Tensor, match_dtype};
use std::ops::Range;

/// The approximate number of elements of a tile of columns.
const TILE: usize = 1 << 18;

/// `x: [N, C, spatial..], w: [O, C / groups, kernel..] -> [N, O, spatial..]`.
pub(crate) fn conv(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    w: &Tensor,
    window: &Window,
    groups: usize,
    out: DType,
) -> Result<Tensor, OpFault> {
    let ([n, channels, input @ ..], [out_channels, group_channels, kernel @ ..]) =
        (x.shape(), w.shape())
    else {
        return Err(OpFault::malformed(format!(
            "operands of ranks {} and {}",
            x.rank(),
            w.rank()
        )));
    };
    check_window(window, input.len())?;
    check_groups(groups, *out_channels, w.rank() == x.rank())?;
    if group_channels.checked_mul(groups) != Some(*channels) {
        return Err(OpFault::SizeMismatch {
            what: "input channels (those of the weights times the groups)",
            left: ctx.describe(0, x),
            left_size: *channels,
            right: ctx.describe(1, w),
            right_size: group_channels.saturating_mul(groups),
        });
    }
    let geometry = Geometry::forward(ctx, input, kernel, window)?;
    let shape: Shape = [*n, *out_channels]
        .into_iter()
        .chain(geometry.output_shape(input.len()))
        .collect();
    let mut result = Tensor::zeros(ctx.dtype(out), &shape)?;
    if result.is_empty() || w.is_empty() {
        return Ok(result);
    }
    let (x, w) = (
        ctx.dense(&cast(ctx, x, out)?)?,
        ctx.dense(&cast(ctx, w, out)?)?,
    );
    let sizes = Group {
        channels: *group_channels,
        out_channels: out_channels / groups,
    };
    match_dtype!(result.dtype(), T => {
        let w = widened(ctx.interrupt(), w.as_slice::<T>()?)?;
        // Empty if everything is padding.
        let length = sizes.channels * geometry.n_inputs();
        let x = x.as_slice::<T>()?;
        let inputs = (0..n * groups).map(|index| &x[index * length..][..length]);
        let outputs = result.as_mut_slice::<T>()?.chunks_exact_mut(sizes.out_channels * geometry.n_outputs());
        let weights = w.chunks_exact(sizes.out_channels * sizes.channels * geometry.n_taps()).cycle();
        for ((x, w), y) in inputs.zip(weights).zip(outputs) {
            if sizes.channels == 1 {
                convolve_channel::<T>(ctx, &geometry, x, w, y)?;
            } else {
                convolve_group::<T>(ctx, &geometry, sizes, x, w, y)?;
            }
        }
    });
    Ok(result)
}

/// Rejects groups that do not divide the output channels.
pub(crate) fn check_groups(
    groups: usize,
    out_channels: usize,
    same_rank: bool,
) -> Result<(), OpFault> {
    if groups == 0 || !out_channels.is_multiple_of(groups) || !same_rank {
        return Err(OpFault::malformed(format!(
            "{groups} groups of {out_channels} channels"
        )));
    }
    Ok(())
}

/// The channels of one group.
#[derive(Clone, Copy)]
struct Group {
    channels: usize,
    out_channels: usize,
}

/// One group of one image, as products with tiles of columns.
fn convolve_group<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    group: Group,
    x: &[T],
    w: &[T::Wide],
    y: &mut [T],
) -> Result<(), OpFault> {
    let depth = group.channels * geometry.n_taps();
    let positions = geometry.n_outputs();
    let tile = (TILE / depth).clamp(16, positions.max(16)).min(positions);
    let mut columns = ctx.interrupt().filled(depth * tile, T::Wide::ZERO)?;
    let mut sums = ctx
        .interrupt()
        .filled(group.out_channels * tile, T::Wide::ZERO)?;
    for start in (0..positions).step_by(tile) {
        let range = start..(start + tile).min(positions);
        let product = Product {
            m: group.out_channels,
            k: depth,
            n: range.len(),
        };
        fill_columns(ctx, geometry, x, range.clone(), &mut columns)?;
        contraction::product(ctx.interrupt(), product, w, &columns, &mut sums)?;
        for (y, sums) in y
            .chunks_exact_mut(positions)
            .zip(sums.chunks_exact(product.n))
        {
            ctx.work(product.n)?;
            for (element, &sum) in y[range.clone()].iter_mut().zip(sums) {
                *element = T::narrow(sum);
            }
        }
    }
    Ok(())
}

/// Row `channel * taps + tap` of the columns: the elements that the output positions of a range read there.
fn fill_columns<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    x: &[T],
    range: Range<usize>,
    columns: &mut [T::Wide],
) -> Result<(), OpFault> {
    let taps = geometry.n_taps();
    let width = range.len();
    columns.fill(T::Wide::ZERO);
    for (channel, x) in x.chunks_exact(geometry.n_inputs().max(1)).enumerate() {
        for tap in 0..taps {
            ctx.work(width)?;
            let line = (channel * taps + tap) * width;
            let line = &mut columns[line..line + width];
            for (row, cut, at) in rows_of(geometry, range.clone()) {
                let Some(reads) = geometry.reads(row, cut, tap) else {
                    continue;
                };
                let to = &mut line[at + reads.columns.start..at + reads.columns.end];
                for (to, from) in to
                    .iter_mut()
                    .zip(x[reads.first..].iter().step_by(reads.step))
                {
                    *to = from.to_wide();
                }
            }
        }
    }
    Ok(())
}

/// The rows that a range of flat positions touches: the row, its columns, and their start in the range.
pub(crate) fn rows_of(
    geometry: &Geometry,
    range: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let columns = geometry.n_columns().max(1);
    let rows = range.start / columns..range.end.div_ceil(columns);
    rows.map(move |row| {
        let start = range.start.max(row * columns);
        let end = range.end.min((row + 1) * columns);
        (
            row,
            start - row * columns..end - row * columns,
            start - range.start,
        )
    })
}

/// All output channels of a group with one input channel, tap by tap.
fn convolve_channel<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    x: &[T],
    w: &[T::Wide],
    y: &mut [T],
) -> Result<(), OpFault> {
    let mut sums = ctx
        .interrupt()
        .filled(geometry.n_columns(), T::Wide::ZERO)?;
    let weights = w.chunks_exact(geometry.n_taps());
    for (weights, y) in weights.zip(y.chunks_exact_mut(geometry.n_outputs())) {
        for (row, y) in y.chunks_exact_mut(geometry.n_columns()).enumerate() {
            sums.fill(T::Wide::ZERO);
            for (tap, &weight) in weights.iter().enumerate() {
                ctx.work(geometry.n_columns())?;
                let outside = weight.times(T::Wide::ZERO);
                let columns = 0..geometry.n_columns();
                let Some(reads) = geometry.reads(row, columns, tap) else {
                    add(&mut sums, outside);
                    continue;
                };
                add(&mut sums[..reads.columns.start], outside);
                add(&mut sums[reads.columns.end..], outside);
                let sums = sums[reads.columns.clone()].iter_mut();
                if reads.step == 1 {
                    // The same loop over a plain slice, which the compiler can vectorise.
                    for (sum, from) in sums.zip(&x[reads.first..]) {
                        *sum = sum.plus(weight.times(from.to_wide()));
                    }
                } else {
                    for (sum, from) in sums.zip(x[reads.first..].iter().step_by(reads.step)) {
                        *sum = sum.plus(weight.times(from.to_wide()));
                    }
                }
            }
            for (element, &sum) in y.iter_mut().zip(&sums) {
                *element = T::narrow(sum);
            }
        }
    }
    Ok(())
}

/// Adds one number to each sum.
fn add<A: Accumulator>(sums: &mut [A], number: A) {
    for sum in sums {
        *sum = sum.plus(number);
    }
}

#[cfg(test)]
mod tests;
