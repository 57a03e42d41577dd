//! Non-maximum suppression: drops boxes that overlap a better one too much.

use kiln_ir::{CumulateFunction, Extremum, Op, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("NonMaxSuppression", &[10], suppress)];

/// The two ends of boxes along one axis, `[N, C, boxes]`.
#[derive(Clone, Copy)]
struct Extent {
    low: ValueId,
    high: ValueId,
}

/// `boxes: [N, boxes, 4], scores: [N, C, boxes] -> i64[selected, 3]`: batch, class and box of each that is kept, classes
/// in order and in each the best first.
fn suppress(ctx: &mut NodeContext<'_>) -> Imported {
    let (boxes, scores) = (ctx.input(0)?, ctx.input(1)?);
    let [batch, count, _] = ctx.dims_of_rank::<3>(0, boxes)?;
    let [_, classes, _] = ctx.dims_of_rank::<3>(1, scores)?;
    let dtype = ctx.dtype(boxes)?;
    let is_centred = match ctx.attributes().get_or("center_point_box", 0_i64)? {
        0 => false,
        1 => true,
        other => return Err(ctx.attribute_error("center_point_box", "0 or 1", other)),
    };
    let threshold = number(ctx, 3, dtype)?;
    let (sorted, order) = ctx.build(|builder| builder.top_k(scores, count, 2, Extremum::Max))?;
    let dims = [batch, classes, count];
    let (down, across) = extents(ctx, boxes, is_centred)?;
    let unit = ctx.size(1);
    let mut edges = Vec::with_capacity(4);
    for edge in [down.low, down.high, across.low, across.high] {
        let edge = ctx.reshape(edge, &[batch, unit, count])?;
        let edge = ctx.broadcast(edge, &dims)?;
        edges.push(ctx.build(|builder| builder.gather_elements(edge, order, 2))?);
    }
    let mut kept = match ctx.optional(4) {
        Some(_) => {
            let least = number(ctx, 4, ctx.dtype(scores)?)?;
            ctx.map("gt", &[sorted, least])?
        }
        None => ctx.filled(DType::Bool, 1.0, &dims)?,
    };
    let position = ctx.positions(DType::I64, &[unit, unit, count], 2)?;
    let trips = ctx.dim_as_data(count)?;
    let mut captures = edges;
    captures.extend([threshold, position]);
    kept = ctx.build(|builder| {
        let kept = builder.repeat::<InferError>(
            trips,
            &[kept],
            &captures,
            |builder, step, carried, captures| {
                let &[top, bottom, left, right, threshold, position] = captures else {
                    unreachable!("six values are passed in");
                };
                let down = Extent {
                    low: top,
                    high: bottom,
                };
                let across = Extent {
                    low: left,
                    high: right,
                };
                let overlaps = overlaps(builder, step, down, across, threshold)?;
                let kept = carried[0];
                let own = builder.gather(kept, step, 2)?;
                let own = builder.unsqueeze(own, &[2])?;
                let later = builder.greater(position, step)?;
                let goes = builder.and(overlaps, own)?;
                let goes = builder.and(goes, later)?;
                let stays = builder.not(goes)?;
                Ok((vec![builder.and(kept, stays)?], vec![]))
            },
        )?;
        Ok(kept[0])
    })?;
    // At most this many per class.
    let number_kept = ctx.cast(kept, DType::I64)?;
    let rank = ctx.op(
        Op::Cumulate {
            function: CumulateFunction::Sum,
            axis: 2,
            exclusive: false,
            reverse: false,
        },
        &[number_kept],
    )?;
    let most = number(ctx, 2, DType::I64)?;
    let within = ctx.map("le", &[rank, most])?;
    let kept = ctx.map("and", &[kept, within])?;
    let places = ctx.build(|builder| builder.non_zero(kept))?;
    let places = ctx.transpose(places, &[1, 0])?;
    let number = ctx.op(Op::GatherNd { batch_axes: 0 }, &[order, places])?;
    let selected = ctx.shape(number)?[0];
    let number = ctx.reshape(number, &[selected, unit])?;
    let place = ctx.narrow(places, 1, 0, 2)?;
    one(ctx.build(|builder| builder.concat(&[place, number], 1))?)
}

/// A scalar operand, 0 where it is omitted.
fn number(ctx: &mut NodeContext<'_>, index: usize, dtype: DType) -> Result<ValueId, Error> {
    match ctx.optional(index) {
        Some(value) => {
            let value = ctx.as_scalar(value)?;
            ctx.cast(value, dtype)
        }
        None => ctx.scalar(dtype, 0.0),
    }
}

/// `[y1, x1, y2, x2]`, the corners in any order, or `[x, y, width, height]` around the centre.
fn extents(
    ctx: &mut NodeContext<'_>,
    boxes: ValueId,
    is_centred: bool,
) -> Result<(Extent, Extent), Error> {
    let mut entries = Vec::with_capacity(4);
    for index in 0..4 {
        entries.push(ctx.entry(boxes, 2, index)?);
    }
    let &[a, b, c, d] = entries.as_slice() else {
        unreachable!("four entries are read");
    };
    let mut extent = |one: ValueId, other: ValueId| -> Result<Extent, Error> {
        if is_centred {
            let half = ctx.scaled(other, 0.5)?;
            return Ok(Extent {
                low: ctx.sub(one, half)?,
                high: ctx.add(one, half)?,
            });
        }
        Ok(Extent {
            low: ctx.map("min", &[one, other])?,
            high: ctx.map("max", &[one, other])?,
        })
    };
    if is_centred {
        let across = extent(a, c)?;
        return Ok((extent(b, d)?, across));
    }
    let down = extent(a, c)?;
    Ok((down, extent(b, d)?))
}

/// Whether the intersection of the box at position `step` with each other is more than `threshold` of their union.
fn overlaps(
    builder: &mut GraphBuilder,
    step: ValueId,
    down: Extent,
    across: Extent,
    threshold: ValueId,
) -> Result<ValueId, InferError> {
    let zero = {
        let dtype = builder.dtype(down.low)?;
        builder.scalar(dtype, 0.0)?
    };
    let mut areas = Vec::with_capacity(3);
    let mut shared = None;
    let mut sides = Vec::with_capacity(4);
    for extent in [down, across] {
        let low = builder.gather(extent.low, step, 2)?;
        let low = builder.unsqueeze(low, &[2])?;
        let high = builder.gather(extent.high, step, 2)?;
        let high = builder.unsqueeze(high, &[2])?;
        let own = builder.sub(high, low)?;
        let theirs = builder.sub(extent.high, extent.low)?;
        let start = builder.max(low, extent.low)?;
        let end = builder.min(high, extent.high)?;
        let common = builder.sub(end, start)?;
        let common = builder.max(common, zero)?;
        sides.push((own, theirs));
        shared = Some(match shared {
            Some(shared) => builder.mul(shared, common)?,
            None => common,
        });
    }
    let Some(shared) = shared else {
        unreachable!("there are two axes");
    };
    areas.push(builder.mul(sides[0].0, sides[1].0)?);
    areas.push(builder.mul(sides[0].1, sides[1].1)?);
    let both = builder.add(areas[0], areas[1])?;
    let covered = builder.sub(both, shared)?;
    let mut is_box = builder.greater(shared, zero)?;
    for area in [areas[0], areas[1], covered] {
        let is_area = builder.greater(area, zero)?;
        is_box = builder.and(is_box, is_area)?;
    }
    let ratio = builder.div(shared, covered)?;
    let is_more = builder.greater(ratio, threshold)?;
    builder.and(is_box, is_more)
}
