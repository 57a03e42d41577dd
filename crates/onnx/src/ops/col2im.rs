//! Blocks moved back to their positions in an image, and added where they overlap.

use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use super::window::Moves;
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[operator("Col2Im", &[18], col2im)];

/// `x: [N, C * elements of a block, blocks] -> [N, C, image..]`: a transposed convolution, in which each element of a
/// block has a channel and a weight of 1 at its place.
fn col2im(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, _) = ctx.with_known_size(0, 1, "a known number of channels")?;
    let [batch, depth, _] = ctx.dims_of_rank::<3>(0, x)?;
    let image = ctx.sizes_of(1)?;
    let block = ctx.integers(2)?;
    if image.len() != block.len() || block.iter().any(|&size| size < 1) {
        let expected = format!("{} sizes of 1 or more", image.len());
        return Err(ctx.operand_error(2, expected, format!("{block:?}")));
    }
    let block: Vec<DimId> = block.iter().map(|&size| ctx.size(size)).collect();
    let elements = ctx.product(&block)?;
    let channels = ctx.sizes(|table| table.floor_div(depth, elements))?;
    let window = Moves::read(ctx, image.len())?.window(ctx, &image, &block)?;
    // The number of blocks along each axis, and the part of the image that no block reaches.
    let (mut counts, mut unreached) = (Vec::new(), Vec::new());
    for (axis, (&size, &length)) in image.iter().zip(&block).enumerate() {
        let (stride, dilation) = (window.strides[axis], window.dilations[axis]);
        let (low, high) = (window.low[axis], window.high[axis]);
        let (count, rest) = ctx.sizes(|table| {
            let (one, stride) = (table.constant(1), table.constant(stride));
            let dilation = table.constant(dilation);
            let reach = table.sub(length, one)?;
            let reach = table.mul(reach, dilation)?;
            let padded = table.sum(&[size, low, high])?;
            let free = table.sub(padded, reach)?;
            let free = table.sub(free, one)?;
            let steps = table.floor_div(free, stride)?;
            let used = table.mul(steps, stride)?;
            Ok((table.add(steps, one)?, table.sub(free, used)?))
        })?;
        counts.push(count);
        unreached.push(rest);
    }
    let mut dims = vec![batch, depth];
    dims.extend_from_slice(&counts);
    let blocks = ctx.reshape(x, &dims)?;
    // weights[c * elements + e, 0, ..] is 1 at element e.
    let unit = ctx.size(1);
    let dtype = ctx.dtype(x)?;
    let place = ctx.positions(DType::I64, &[unit, elements, elements], 2)?;
    let element = ctx.positions(DType::I64, &[unit, elements, unit], 1)?;
    let hit = ctx.map("eq", &[place, element])?;
    let weights = ctx.cast(hit, dtype)?;
    let weights = ctx.broadcast(weights, &[channels, elements, elements])?;
    let mut kernel = vec![depth, unit];
    kernel.extend_from_slice(&block);
    let weights = ctx.reshape(weights, &kernel)?;
    let Some(groups) = ctx
        .known(channels)
        .and_then(|count| usize::try_from(count).ok())
    else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a known number of channels", found));
    };
    one(ctx.build(|builder| builder.conv_transpose(blocks, weights, window, &unreached, groups))?)
}
