//! Images sampled at the points of a grid.

use kiln_ir::ValueId;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::sample::{Interpolation, Outside, mirrored, taps, weighted_sum};
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("GridSample", &[16, 20], grid_sample)];

/// `x: [N, C, spatial..], grid: [N, points.., k] -> [N, C, points..]`; the last axis of the grid holds the coordinates,
/// innermost axis first, from -1 to 1.
fn grid_sample(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let (interpolation, outside, corners) = attributes(ctx)?;
    let dims = ctx.shape(x)?;
    let spatial = dims.len().saturating_sub(2);
    let expected = format!("a grid of rank {} with {spatial} coordinates", dims.len());
    let (grid, coordinates) = ctx.with_known_size(1, spatial + 1, &expected)?;
    let grid_dims = ctx.shape(grid)?;
    let fits = grid_dims.len() == dims.len() && usize::try_from(coordinates) == Ok(spatial);
    if spatial == 0 || !fits {
        let found = ctx.builder().describe(grid);
        return Err(ctx.operand_error(1, expected, found));
    }
    let wide = match ctx.dtype(grid)? {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let grid = ctx.cast(grid, wide)?;
    let points = &grid_dims[..=spatial];
    let mut axes = Vec::with_capacity(spatial);
    for (axis, &length) in dims[2..].iter().enumerate() {
        let last = i64::try_from(spatial - 1 - axis).unwrap_or(0);
        let at = ctx.entry(grid, spatial + 1, last)?;
        let at = place(ctx, at, length, corners)?;
        let at = match interpolation {
            Interpolation::Nearest => ctx.map("round_even", &[at])?,
            _ => at,
        };
        let at = brought_inside(ctx, at, length, (outside, corners))?;
        axes.push(taps(ctx, at, length, interpolation, outside)?);
    }
    let unit = ctx.size(1);
    let mut per_picture: Vec<DimId> = vec![unit; points.len()];
    per_picture[0] = dims[0];
    let picture = ctx.positions(DType::I64, &per_picture, 0)?;
    let sum = weighted_sum(ctx, x, picture, &axes, points)?;
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.swap(0, 1);
    one(ctx.transpose(sum, &order)?)
}

fn attributes(ctx: &NodeContext<'_>) -> Result<(Interpolation, Outside, bool), Error> {
    let interpolation = match ctx.attributes().get_or("mode", "linear")? {
        "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic,
        other => {
            let expected = "\"nearest\", \"linear\" or \"cubic\"";
            return Err(ctx.attribute_error("mode", expected, other));
        }
    };
    let corners = ctx.flag("align_corners", false)?;
    let outside = match ctx.attributes().get_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Edge,
        "reflection" => Outside::Mirror { corners },
        other => {
            let expected = "\"zeros\", \"border\" or \"reflection\"";
            return Err(ctx.attribute_error("padding_mode", expected, other));
        }
    };
    Ok((interpolation, outside, corners))
}

/// Maps -1 to 1 to elements: between the centres of the corner elements, or between their outer edges.
fn place(
    ctx: &mut NodeContext<'_>,
    at: ValueId,
    length: DimId,
    corners: bool,
) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(at)?;
    let length = ctx.dim_as(length, dtype)?;
    let from_first = ctx.plus(at, 1.0)?;
    if corners {
        let span = ctx.plus(length, -1.0)?;
        let half = ctx.scaled(from_first, 0.5)?;
        return ctx.mul(half, span);
    }
    let scaled = ctx.mul(from_first, length)?;
    let shifted = ctx.plus(scaled, -1.0)?;
    ctx.scaled(shifted, 0.5)
}

/// Moves points outside before their neighbours are determined; points inside are unchanged.
fn brought_inside(
    ctx: &mut NodeContext<'_>,
    at: ValueId,
    length: DimId,
    (outside, corners): (Outside, bool),
) -> Result<ValueId, Error> {
    if outside == Outside::Zeros {
        return Ok(at);
    }
    let dtype = ctx.dtype(at)?;
    let length = ctx.dim_as(length, dtype)?;
    if let Outside::Mirror { corners } = outside {
        return mirrored(ctx, at, length, corners);
    }
    let margin = if corners { 0.0 } else { 0.5 };
    let (zero, last) = (ctx.scalar(dtype, 0.0)?, ctx.plus(length, -1.0)?);
    let (low, high) = (ctx.scalar(dtype, -margin)?, ctx.plus(last, margin)?);
    let clipped = ctx.map("clip", &[at, zero, last])?;
    let below = ctx.map("lt", &[at, low])?;
    let above = ctx.map("gt", &[at, high])?;
    let is_outside = ctx.map("or", &[below, above])?;
    ctx.select(is_outside, clipped, at)
}
