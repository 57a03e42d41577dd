//! Non-maximum suppression: drops boxes that overlap a better one too much.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("NonMaxSuppression", &[10], suppress)];

/// `boxes: [N, boxes, 4], scores: [N, C, boxes] -> i64[selected, 3]`: batch, class and box of each box that is kept,
/// classes in order and, within each class, the best first.
fn suppress(ctx: &mut NodeContext<'_>) -> Imported {
    let (boxes, scores) = (ctx.input(0)?, ctx.input(1)?);
    let [_, count, _] = ctx.dims_of_rank::<3>(0, boxes)?;
    let _classes = ctx.dims_of_rank::<3>(1, scores)?;
    let boxes = match ctx.attributes().get_or("center_point_box", 0_i64)? {
        0 => boxes,
        1 => corners(ctx, boxes)?,
        other => return Err(ctx.attribute_error("center_point_box", "0 or 1", other)),
    };
    let overlap = number(ctx, 3, DType::F32, 0.0)?;
    // Without a threshold, every box is a candidate, which NaN represents.
    let least = number(ctx, 4, DType::F32, f64::NAN)?;
    let most = number(ctx, 2, DType::I64, 0.0)?;
    let none = ctx.integer(0)?;
    let all = ctx.dim_as_data(count)?;
    let most = ctx.map("max", &[most, none])?;
    let most = ctx.map("min", &[most, all])?;
    let &[most] = ctx.sizes_in(most)?.as_slice() else {
        return Err(ctx.operand_error(2, "one number", "another number of them".to_owned()));
    };
    one(ctx.build(|builder| builder.suppress([boxes, scores, overlap, least], most))?)
}

/// A scalar operand, or this number if it is omitted.
fn number(
    ctx: &mut NodeContext<'_>,
    index: usize,
    dtype: DType,
    absent: f64,
) -> Result<ValueId, Error> {
    match ctx.optional(index) {
        Some(value) => {
            let value = ctx.as_scalar(value)?;
            ctx.cast(value, dtype)
        }
        None => ctx.scalar(dtype, absent),
    }
}

/// `[x, y, width, height]` around the centre as two corners.
fn corners(ctx: &mut NodeContext<'_>, boxes: ValueId) -> Result<ValueId, Error> {
    let centres = ctx.narrow(boxes, 2, 0, 2)?;
    let sizes = ctx.narrow(boxes, 2, 2, 2)?;
    let halves = ctx.scaled(sizes, 0.5)?;
    let low = ctx.sub(centres, halves)?;
    let high = ctx.add(centres, halves)?;
    ctx.build(|builder| builder.concat(&[low, high], 2))
}
