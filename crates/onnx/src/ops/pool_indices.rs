//! The position in the operand of each result of a pool.

use kiln_ir::{ValueId, Window};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use crate::{Error, NodeContext};

/// The index of the maximum element of each window, counted over the whole operand: with the innermost axis first, or the
/// outermost if `column_major`.
pub(super) fn largest_indices(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    size: &[i64],
    window: &Window,
    column_major: bool,
) -> Result<ValueId, Error> {
    let mut place = ctx.build(|builder| builder.arg_pool(x, size, window.clone()))?;
    let dims = ctx.shape(x)?;
    let (outer, spatial) = dims.split_at(2);
    if column_major {
        place = outermost_first(ctx, place, spatial)?;
    }
    let unit = ctx.size(1);
    let mut along = vec![unit; dims.len()];
    (along[0], along[1]) = (outer[0], outer[1]);
    let batch = ctx.positions(DType::I64, &along, 0)?;
    let channel = ctx.positions(DType::I64, &along, 1)?;
    let channels = ctx.dim_as_data(outer[1])?;
    let images = ctx.mul(batch, channels)?;
    let picture = ctx.add(images, channel)?;
    let elements = ctx.product(spatial)?;
    let elements = ctx.dim_as_data(elements)?;
    let start = ctx.mul(picture, elements)?;
    ctx.add(start, place)
}

/// Row-major positions in an image, counted with its outermost axis first.
fn outermost_first(
    ctx: &mut NodeContext<'_>,
    mut rest: ValueId,
    sizes: &[DimId],
) -> Result<ValueId, Error> {
    let mut index = ctx.integer(0)?;
    for &size in sizes.iter().rev() {
        // No element has a position in an empty image, but its size is still used as a divisor.
        let size = ctx.sizes(|table| {
            let one = table.constant(1);
            table.max(size, one)
        })?;
        let size = ctx.dim_as_data(size)?;
        let offset = ctx.map("rem", &[rest, size])?;
        rest = ctx.div(rest, size)?;
        index = ctx.mul(index, size)?;
        index = ctx.add(index, offset)?;
    }
    Ok(index)
}
