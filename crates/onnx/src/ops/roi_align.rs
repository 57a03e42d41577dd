//! Regions of images, pooled to one size without rounding their positions.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::sample::{Interpolation, Outside, Tap, taps, weighted_terms};
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("RoiAlign", &[10, 16], roi_align)];

/// One axis of all regions.
struct Side {
    /// The neighbours of each point, `[regions, bins, points]`.
    taps: Vec<Tap>,
    /// Whether a point counts, as 0 or 1.
    counts: ValueId,
    /// The number of points of each bin, `[regions]`.
    number: ValueId,
    /// The number of points allocated for every bin.
    room: DimId,
}

/// The attributes that apply to every axis.
struct Setting {
    scale: f64,
    half_pixel: bool,
    ratio: i64,
}

/// `x: [N, C, H, W], rois: [R, 4], picture: i64[R] -> [R, C, height, width]`.
fn roi_align(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, rois, picture) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let [_, channels, height, width] = ctx.dims_of_rank::<4>(0, x)?;
    let [regions, _] = ctx.dims_of_rank::<2>(1, rois)?;
    let default = if ctx.version() < 16 {
        "output_half_pixel"
    } else {
        "half_pixel"
    };
    let half_pixel = match ctx
        .attributes()
        .get_or("coordinate_transformation_mode", default)?
    {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => {
            let expected = "\"half_pixel\" or \"output_half_pixel\"";
            return Err(ctx.attribute_error("coordinate_transformation_mode", expected, other));
        }
    };
    let is_mean = match ctx.attributes().get_or("mode", "avg")? {
        "avg" => true,
        "max" => false,
        other => return Err(ctx.attribute_error("mode", "\"avg\" or \"max\"", other)),
    };
    let setting = Setting {
        scale: f64::from(ctx.attributes().get_or("spatial_scale", 1.0_f32)?),
        half_pixel,
        ratio: ctx.attributes().get_or("sampling_ratio", 0_i64)?,
    };
    let rows = bins(ctx, "output_height")?;
    let columns = bins(ctx, "output_width")?;
    let vertical = side(ctx, rois, (1, 3), height, rows, &setting)?;
    let horizontal = side(ctx, rois, (0, 2), width, columns, &setting)?;

    let unit = ctx.size(1);
    let points = [regions, rows, vertical.room, columns, horizontal.room];
    let mut placed = Vec::with_capacity(2);
    for (side, dims) in [
        (&vertical, [regions, rows, vertical.room, unit, unit]),
        (&horizontal, [regions, unit, unit, columns, horizontal.room]),
    ] {
        let mut taps = Vec::with_capacity(side.taps.len());
        for tap in &side.taps {
            let index = ctx.reshape(tap.index, &dims)?;
            let weight = match tap.weight {
                Some(weight) => Some(ctx.reshape(weight, &dims)?),
                None => None,
            };
            taps.push(Tap { index, weight });
        }
        placed.push(taps);
    }
    let picture = ctx.cast(picture, DType::I64)?;
    let picture = ctx.reshape(picture, &[regions, unit, unit, unit, unit])?;
    let terms = weighted_terms(ctx, x, picture, &placed, &points)?;
    let (down, across) = (
        ctx.reshape(vertical.counts, &[regions, unit, vertical.room, unit, unit])?,
        ctx.reshape(
            horizontal.counts,
            &[regions, unit, unit, unit, horizontal.room],
        )?,
    );
    let counts = ctx.mul(down, across)?;
    let pooled = if is_mean {
        let mut sum = None;
        for term in terms {
            sum = Some(match sum {
                Some(sum) => ctx.add(sum, term)?,
                None => term,
            });
        }
        let sum = sum.ok_or_else(|| ctx.unsupported("regions without points"))?;
        let counts = ctx.cast(counts, ctx.dtype(sum)?)?;
        let sum = ctx.mul(sum, counts)?;
        let sum = ctx.reduce(ReduceFunction::Sum, sum, &[3, 5], false)?;
        let number = ctx.mul(vertical.number, horizontal.number)?;
        let number = ctx.cast(number, ctx.dtype(sum)?)?;
        let number = ctx.reshape(number, &[unit, regions, unit, unit])?;
        let least = ctx.scalar_like(number, 1.0)?;
        let number = ctx.map("max", &[number, least])?;
        ctx.div(sum, number)?
    } else {
        largest_term(ctx, &terms, counts)?
    };
    let pooled = ctx.reshape(pooled, &[channels, regions, rows, columns])?;
    one(ctx.transpose(pooled, &[1, 0, 2, 3])?)
}

fn bins(ctx: &mut NodeContext<'_>, name: &str) -> Result<DimId, Error> {
    let count = ctx.attributes().get_or(name, 1_i64)?;
    if count < 1 {
        return Err(ctx.attribute_error(name, "at least 1", count));
    }
    Ok(ctx.size(count))
}

/// The maximum weighted neighbour of any point that counts, as in the operator's specification; 0 if there is none.
fn largest_term(
    ctx: &mut NodeContext<'_>,
    terms: &[ValueId],
    counts: ValueId,
) -> Result<ValueId, Error> {
    let mut largest = None;
    for &term in terms {
        largest = Some(match largest {
            Some(largest) => ctx.map("max", &[largest, term])?,
            None => term,
        });
    }
    let largest = largest.ok_or_else(|| ctx.unsupported("regions without points"))?;
    let (zero, least) = (
        ctx.scalar_like(counts, 0.0)?,
        ctx.scalar_like(largest, f64::NEG_INFINITY)?,
    );
    let counted = ctx.map("gt", &[counts, zero])?;
    let largest = ctx.select(counted, largest, least)?;
    let largest = ctx.reduce(ReduceFunction::Max, largest, &[3, 5], false)?;
    let none = ctx.map("eq", &[largest, least])?;
    let zero = ctx.scalar_like(largest, 0.0)?;
    ctx.select(none, zero, largest)
}

fn side(
    ctx: &mut NodeContext<'_>,
    rois: ValueId,
    (start, end): (i64, i64),
    length: DimId,
    bins: DimId,
    setting: &Setting,
) -> Result<Side, Error> {
    let offset = if setting.half_pixel { -0.5 } else { 0.0 };
    let mut edges = Vec::with_capacity(2);
    for index in [start, end] {
        let edge = ctx.entry(rois, 1, index)?;
        let edge = ctx.scaled(edge, setting.scale)?;
        edges.push(ctx.plus(edge, offset)?);
    }
    let dtype = ctx.dtype(edges[0])?;
    let mut extent = ctx.sub(edges[1], edges[0])?;
    if !setting.half_pixel {
        let least = ctx.scalar(dtype, 1.0)?;
        extent = ctx.map("max", &[extent, least])?;
    }
    let bin_count = ctx.dim_as(bins, dtype)?;
    let bin = ctx.div(extent, bin_count)?;
    let regions = ctx.shape(bin)?[0];
    let unit = ctx.size(1);
    let (number, room) = if setting.ratio > 0 {
        let number = ctx.filled(dtype, setting.ratio as f64, &[regions])?;
        (number, ctx.size(setting.ratio))
    } else {
        // One point per element, region by region; every region is allocated the maximum.
        let number = ctx.map("ceil", &[bin])?;
        let zero = ctx.scalar(dtype, 0.0)?;
        let number = ctx.map("max", &[number, zero])?;
        let most = ctx.reduce(ReduceFunction::Max, number, &[0], false)?;
        let most = ctx.cast(most, DType::I64)?;
        let room = ctx.build(|builder| {
            let zero = builder.scalar(DType::I64, 0.0)?;
            let most = builder.max(most, zero)?;
            builder.bind_sizes(most)
        })?;
        let &[room] = room.as_slice() else {
            unreachable!("a scalar binds one size");
        };
        (number, room)
    };
    let per_region = [regions, unit, unit];
    let (first, size, each) = (
        ctx.reshape(edges[0], &per_region)?,
        ctx.reshape(bin, &per_region)?,
        ctx.reshape(number, &per_region)?,
    );
    let step = ctx.div(size, each)?;
    let bin_index = ctx.positions(dtype, &[unit, bins, unit], 1)?;
    let point = ctx.positions(dtype, &[unit, unit, room], 2)?;
    let counts = ctx.map("lt", &[point, each])?;
    let middle = ctx.plus(point, 0.5)?;
    let inside_bin = ctx.mul(middle, step)?;
    let bin_start = ctx.mul(bin_index, size)?;
    let bin_start = ctx.add(first, bin_start)?;
    let at = ctx.add(bin_start, inside_bin)?;

    // A point beyond the element before the first or after the last does not read anything.
    let (zero, before) = (ctx.scalar(dtype, 0.0)?, ctx.scalar(dtype, -1.0)?);
    let after = ctx.dim_as(length, dtype)?;
    let last = ctx.plus(after, -1.0)?;
    let (far_low, far_high) = (ctx.map("ge", &[at, before])?, ctx.map("le", &[at, after])?);
    let near = ctx.map("and", &[far_low, far_high])?;
    let near = ctx.cast(near, dtype)?;
    let at = ctx.map("clip", &[at, zero, last])?;
    let mut taps = taps(ctx, at, length, Interpolation::Linear, Outside::Edge)?;
    for tap in &mut taps {
        if let Some(weight) = tap.weight {
            tap.weight = Some(ctx.mul(weight, near)?);
        }
    }
    let counts = ctx.cast(counts, dtype)?;
    Ok(Side {
        taps,
        counts,
        number,
        room,
    })
}
