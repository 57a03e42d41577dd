//! Mel filter banks: the weights of frequencies in the bands of the mel scale.

use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::cast::dtype_attribute;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};
use kiln_ir::ValueId;

pub(super) const OPERATORS: &[Operator] = &[operator("MelWeightMatrix", &[17], weights)];

/// The frequency in hertz at which the mel scale changes from linear to logarithmic.
const CORNER: f64 = 700.0;
/// Mel per decade.
const PER_DECADE: f64 = 2595.0;

/// `-> [frequencies, bands]`: triangles whose corners are evenly spaced in mel.
fn weights(ctx: &mut NodeContext<'_>) -> Imported {
    let dtype = dtype_attribute(ctx, "output_datatype", DType::F32)?;
    let bands = size_operand(ctx, 0)?;
    let length = size_operand(ctx, 1)?;
    let (frequencies, corners) = ctx.sizes(|table| {
        let (one, two) = (table.constant(1), table.constant(2));
        let half = table.floor_div(length, two)?;
        Ok((table.add(half, one)?, table.add(bands, two)?))
    })?;
    let wide = DType::F64;
    let mut given = Vec::with_capacity(3);
    for index in 2..5 {
        let value = ctx.input(index)?;
        let value = ctx.as_scalar(value)?;
        given.push(ctx.cast(value, wide)?);
    }
    let (rate, low, high) = (given[0], to_mel(ctx, given[1])?, to_mel(ctx, given[2])?);
    let span = ctx.sub(high, low)?;
    let count = ctx.dim_as(corners, wide)?;
    let step = ctx.div(span, count)?;
    let index = ctx.positions(wide, &[corners], 0)?;
    let mel = ctx.mul(index, step)?;
    let mel = ctx.add(mel, low)?;
    let hertz = ctx.scaled(mel, std::f64::consts::LN_10 / PER_DECADE)?;
    let hertz = ctx.map("expm1", &[hertz])?;
    let hertz = ctx.scaled(hertz, CORNER)?;
    let points = ctx.dim_as(length, wide)?;
    let points = ctx.plus(points, 1.0)?;
    let scaled = ctx.mul(points, hertz)?;
    let bins = ctx.map("floor_div", &[scaled, rate])?;

    let unit = ctx.size(1);
    let mut sides = Vec::with_capacity(3);
    for start in 0..3 {
        let start = ctx.size(start);
        let side = ctx.build(|builder| builder.slice_axis(bins, 0, start, bands))?;
        sides.push(ctx.reshape(side, &[unit, bands])?);
    }
    let (left, centre, right) = (sides[0], sides[1], sides[2]);
    let at = ctx.positions(wide, &[frequencies, unit], 0)?;
    let (zero, whole) = (ctx.scalar(wide, 0.0)?, ctx.scalar(wide, 1.0)?);
    let (rise, fall) = (ctx.sub(centre, left)?, ctx.sub(right, centre)?);
    let steep = ctx.map("eq", &[rise, zero])?;
    let divisor = ctx.select(steep, whole, rise)?;
    let rising = ctx.sub(at, left)?;
    let rising = ctx.div(rising, divisor)?;
    let is_centre = ctx.map("eq", &[at, centre])?;
    let peak = ctx.cast(is_centre, wide)?;
    let rising = ctx.select(steep, peak, rising)?;
    let (after_left, before_centre) = (ctx.map("ge", &[at, left])?, ctx.map("le", &[at, centre])?);
    let on_rise = ctx.map("and", &[after_left, before_centre])?;
    let falling = ctx.sub(right, at)?;
    let flat = ctx.map("le", &[fall, zero])?;
    let divisor = ctx.select(flat, whole, fall)?;
    let falling = ctx.div(falling, divisor)?;
    let (after_centre, before_right) =
        (ctx.map("ge", &[at, centre])?, ctx.map("lt", &[at, right])?);
    let on_fall = ctx.map("and", &[after_centre, before_right])?;
    let weight = ctx.select(on_rise, rising, zero)?;
    let weight = ctx.select(on_fall, falling, weight)?;
    one(ctx.cast(weight, dtype)?)
}

fn size_operand(ctx: &mut NodeContext<'_>, index: usize) -> Result<DimId, Error> {
    match ctx.sizes_of(index)?.as_slice() {
        &[size] => Ok(size),
        sizes => Err(ctx.operand_error(index, "one number", sizes.len().to_string())),
    }
}

fn to_mel(ctx: &mut NodeContext<'_>, hertz: ValueId) -> Result<ValueId, Error> {
    let ratio = ctx.scaled(hertz, 1.0 / CORNER)?;
    let logarithm = ctx.map("log1p", &[ratio])?;
    ctx.scaled(logarithm, PER_DECADE / std::f64::consts::LN_10)
}
