//! Deformable convolutions: each element of a window is read at a separate point.

use kiln_ir::ValueId;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::sample::{Interpolation, Outside, taps, weighted_sum};
use super::support::{Imported, one, operator};
use super::window::{Moves, groups};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("DeformConv", &[19], deform_conv)];

/// `x: [N, C, H, W], w: [O, C / groups, h, w], offset: [N, G * h * w * 2, H', W'], bias: [O], mask: [N, G * h * w, H', W'] -> [N, O, H', W']`,
/// with `G` groups of channels that share offsets.
fn deform_conv(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights, offset) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let [batch, channels, height, width] = ctx.dims_of_rank::<4>(0, x)?;
    let [outs, ins, rows, columns] = ctx.dims_of_rank::<4>(1, weights)?;
    let [_, _, out_height, out_width] = ctx.dims_of_rank::<4>(2, offset)?;
    let bends = ctx.attributes().get_or("offset_group", 1_i64)?;
    if bends < 1 {
        return Err(ctx.attribute_error("offset_group", "at least 1", bends));
    }
    let bends = ctx.size(bends);
    let two = ctx.size(2);
    let groups = i64::try_from(groups(ctx)?).unwrap_or(i64::MAX);
    let groups = ctx.size(groups);
    let window = Moves::read(ctx, 2)?.window(ctx, &[height, width], &[rows, columns])?;
    let dtype = ctx.dtype(x)?;

    // One image per sample and offset group.
    let (pictures, alike) =
        ctx.sizes(|table| Ok((table.mul(batch, bends)?, table.floor_div(channels, bends)?)))?;
    let split = ctx.reshape(x, &[pictures, alike, height, width])?;
    let offset = ctx.reshape(
        offset,
        &[pictures, rows, columns, two, out_height, out_width],
    )?;
    let points = [pictures, rows, columns, out_height, out_width];
    let mut axes = Vec::with_capacity(2);
    for (axis, length) in [height, width].into_iter().enumerate() {
        let bent = ctx.entry(offset, 3, i64::try_from(axis).unwrap_or(0))?;
        let straight = straight_positions(ctx, axis, &points, dtype, &window)?;
        let at = ctx.add(straight, bent)?;
        axes.push(taps(
            ctx,
            at,
            length,
            Interpolation::Linear,
            Outside::Zeros,
        )?);
    }
    let unit = ctx.size(1);
    let picture = ctx.positions(DType::I64, &[pictures, unit, unit, unit, unit], 0)?;
    let mut read = weighted_sum(ctx, split, picture, &axes, &points)?;
    if let Some(mask) = ctx.optional(4) {
        let mask = ctx.reshape(mask, &points)?;
        read = ctx.mul(read, mask)?;
    }
    // [C / G, N * G, h, w, H', W'] to [N, groups, C / groups * h * w, H' * W'].
    let moved = ctx.transpose(read, &[1, 0, 2, 3, 4, 5])?;
    let (depth, area, per_group) = ctx.sizes(|table| {
        Ok((
            table.product(&[ins, rows, columns])?,
            table.mul(out_height, out_width)?,
            table.floor_div(outs, groups)?,
        ))
    })?;
    let columns_of = ctx.reshape(moved, &[batch, groups, depth, area])?;
    let weights = ctx.reshape(weights, &[unit, groups, per_group, depth])?;
    let product = ctx.matmul(weights, columns_of)?;
    let y = ctx.reshape(product, &[batch, outs, out_height, out_width])?;
    match ctx.optional(3) {
        Some(bias) => one(ctx.build(|builder| builder.add_channel_bias(y, bias))?),
        None => one(y),
    }
}

/// The position at which each element of each window would be read without offsets, along one axis.
fn straight_positions(
    ctx: &mut NodeContext<'_>,
    axis: usize,
    points: &[DimId; 5],
    dtype: DType,
    window: &kiln_ir::Window,
) -> Result<ValueId, Error> {
    let unit = ctx.size(1);
    let along = |position: usize| {
        let mut dims = [unit; 5];
        dims[position] = points[position];
        dims
    };
    let inner = ctx.positions(dtype, &along(1 + axis), 1 + axis)?;
    let inner = ctx.scaled(inner, window.dilations[axis] as f64)?;
    let outer = ctx.positions(dtype, &along(3 + axis), 3 + axis)?;
    let outer = ctx.scaled(outer, window.strides[axis] as f64)?;
    let sum = ctx.add(outer, inner)?;
    let padding = ctx.dim_as(window.low[axis], dtype)?;
    ctx.sub(sum, padding)
}
