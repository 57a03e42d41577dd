//! Transposed convolutions: they write where a convolution reads. In `f64`, rounded once.
//!
//! For each group, the product of its transposed weights with the operand gives, per tap, the contribution of each operand
//! position to the result; a bounded number of positions at a time.

use super::contraction::{self, Product};
use super::conv::{check_groups, rows_of};
use super::geometry::{Geometry, check_window};
use super::matmul::widened;
use crate::context::{EvaluateContext, Shape};
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::{Dims, Window};
use kiln_tensor::{Tensor, match_dtype};

/// The approximate number of elements of a tile of contributions.
const TILE: usize = 1 << 18;

/// `x: [N, C, spatial..], w: [C, O / groups, kernel..] -> [N, O, sizes..]`.
pub(crate) fn conv_transpose(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    w: &Tensor,
    window: &Window,
    output_padding: &Dims,
    groups: usize,
) -> Result<Tensor, OpFault> {
    let ([n, channels, input @ ..], [w_channels, group_out, kernel @ ..]) = (x.shape(), w.shape())
    else {
        return Err(OpFault::malformed(format!(
            "operands of ranks {} and {}",
            x.rank(),
            w.rank()
        )));
    };
    check_window(window, input.len())?;
    check_groups(
        groups,
        *channels,
        w.rank() == x.rank() && x.dtype() == w.dtype(),
    )?;
    if output_padding.len() != input.len() {
        return Err(OpFault::malformed(format!(
            "expected an output padding for each of {} axes",
            input.len()
        )));
    }
    if channels != w_channels {
        return Err(OpFault::SizeMismatch {
            what: "input channels",
            left: ctx.describe(0, x),
            left_size: *channels,
            right: ctx.describe(1, w),
            right_size: *w_channels,
        });
    }
    let geometry = Geometry::transposed(ctx, input, kernel, window, output_padding)?;
    let out_channels = group_out.saturating_mul(groups);
    let shape: Shape = [*n, out_channels]
        .into_iter()
        .chain(geometry.input_shape(input.len()))
        .collect();
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() || x.is_empty() || w.is_empty() {
        return Ok(result);
    }
    let group_in = channels / groups;
    // Per group `[O / groups * taps, C / groups]`, so that a product sums over the input channels.
    let group_taps = group_out * geometry.n_taps();
    let w = ctx.dense(
        &ctx.dense(w)?
            .reshape(&[groups, group_in, group_taps])?
            .transpose(&[0, 2, 1])?,
    )?;
    let x = ctx.dense(x)?;
    match_dtype!(x.dtype(), T => {
        let w = widened(ctx.interrupt(), w.as_slice::<T>()?)?;
        let inputs = x.as_slice::<T>()?.chunks_exact(group_in * geometry.n_outputs());
        let outputs = result.as_mut_slice::<T>()?.chunks_exact_mut(group_out * geometry.n_inputs());
        let weights = w.chunks_exact(group_taps * group_in).cycle();
        for ((x, w), y) in inputs.zip(weights).zip(outputs) {
            scatter_group::<T>(ctx, &geometry, group_in, x, w, y)?;
        }
    });
    Ok(result)
}

/// One group of one image.
fn scatter_group<T: Number>(
    ctx: &EvaluateContext<'_>,
    geometry: &Geometry,
    group_in: usize,
    x: &[T],
    w: &[T::Wide],
    y: &mut [T],
) -> Result<(), OpFault> {
    let positions = geometry.n_outputs();
    let group_taps = w.len() / group_in;
    let tile = (TILE / group_taps.max(group_in))
        .clamp(16, positions.max(16))
        .min(positions);
    let mut sums = ctx.interrupt().filled(y.len(), T::Wide::ZERO)?;
    let mut operand = ctx.interrupt().filled(group_in * tile, T::Wide::ZERO)?;
    let mut parts = ctx.interrupt().filled(group_taps * tile, T::Wide::ZERO)?;
    for start in (0..positions).step_by(tile) {
        let range = start..(start + tile).min(positions);
        let product = Product {
            m: group_taps,
            k: group_in,
            n: range.len(),
        };
        for (to, from) in operand
            .chunks_exact_mut(product.n)
            .zip(x.chunks_exact(positions))
        {
            ctx.interrupt().widen(to, &from[range.clone()])?;
        }
        contraction::product(ctx.interrupt(), product, w, &operand, &mut parts)?;
        let taps = geometry.n_taps();
        for (line, part) in parts.chunks_exact(product.n).take(group_taps).enumerate() {
            ctx.work(product.n)?;
            let sums = &mut sums[line / taps * geometry.n_inputs()..];
            for (row, cut, at) in rows_of(geometry, range.clone()) {
                let Some(reads) = geometry.reads(row, cut, line % taps) else {
                    continue;
                };
                let part = &part[at + reads.columns.start..at + reads.columns.end];
                for (sum, &part) in sums[reads.first..].iter_mut().step_by(reads.step).zip(part) {
                    *sum = sum.plus(part);
                }
            }
        }
    }
    ctx.interrupt().narrow(y, &sums)
}
