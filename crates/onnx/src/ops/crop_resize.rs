//! Resampling of a region of a tensor, whose bounds are data.

use kiln_ir::{Indices, NearestRounding, ResizeMode, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::sample::{Interpolation, Outside, taps};
use crate::{Error, NodeContext};

/// `x` with `axes` resampled to `sizes`: between the starts and ends in operand 1, as fractions of each axis. Elements
/// outside `x` are the attribute `extrapolation_value`.
pub(super) fn cropped(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    (axes, sizes): (&Indices, &[DimId]),
    mode: ResizeMode,
    rounding: NearestRounding,
) -> Result<ValueId, Error> {
    let region = ctx.input(1)?;
    let region = ctx.cast(region, DType::F32)?;
    let length = ctx.dims_of_rank::<1>(1, region)?[0];
    let wanted = i64::try_from(2 * axes.len()).unwrap_or(i64::MAX);
    if ctx.known(length).is_some_and(|length| length != wanted) {
        let expected = format!("{wanted} numbers, a start and an end per axis");
        let found = ctx.builder().describe(region);
        return Err(ctx.operand_error(1, expected, found));
    }
    let own = ctx.shape(x)?;
    let dtype = ctx.dtype(x)?;
    let value = ctx.attributes().get_or("extrapolation_value", 0.0_f32)?;
    let value = ctx.scalar(dtype, f64::from(value))?;
    let coefficient = ctx.attributes().get_or("cubic_coeff_a", -0.75_f32)?;
    if mode == ResizeMode::Cubic && coefficient != -0.75 {
        let what = format!("a cubic coefficient of {coefficient} where a region is cropped");
        return Err(ctx.unsupported(what));
    }
    let unit = ctx.size(1);
    let count = axes.len();
    let mut y = x;
    let mut is_inside: Option<ValueId> = None;
    for (index, (&axis, &size)) in axes.iter().zip(sizes).enumerate() {
        let position = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let start = ctx.entry(region, 0, position(index))?;
        let end = ctx.entry(region, 0, position(index + count))?;
        let at = points(ctx, (start, end), own[axis], size)?;
        let inside = inside(ctx, at, own[axis])?;
        let mut along = vec![unit; own.len()];
        along[axis] = size;
        let inside = ctx.reshape(inside, &along)?;
        is_inside = Some(match is_inside {
            Some(others) => ctx.map("and", &[others, inside])?,
            None => inside,
        });
        let (at, interpolation) = match mode {
            ResizeMode::Nearest => (rounded(ctx, at, rounding)?, Interpolation::Nearest),
            ResizeMode::Linear => (at, Interpolation::Linear),
            ResizeMode::Cubic => (at, Interpolation::Cubic),
        };
        let mut sum: Option<ValueId> = None;
        for tap in taps(ctx, at, own[axis], interpolation, Outside::Edge)? {
            let mut term = ctx.build(|builder| builder.gather(y, tap.index, axis))?;
            if let Some(weight) = tap.weight {
                let weight = ctx.reshape(weight, &along)?;
                let weight = ctx.cast(weight, dtype)?;
                term = ctx.mul(term, weight)?;
            }
            sum = Some(match sum {
                Some(sum) => ctx.add(sum, term)?,
                None => term,
            });
        }
        y = sum.unwrap_or(y);
    }
    match is_inside {
        Some(is_inside) => ctx.select(is_inside, y, value),
        None => Ok(y),
    }
}

/// `size` points, evenly spaced between two fractions of an axis; a single one is in the middle.
fn points(
    ctx: &mut NodeContext<'_>,
    (start, end): (ValueId, ValueId),
    own: DimId,
    size: DimId,
) -> Result<ValueId, Error> {
    let last = ctx.dim_as(own, DType::F32)?;
    let last = ctx.plus(last, -1.0)?;
    let (first, final_point) = (ctx.mul(start, last)?, ctx.mul(end, last)?);
    let sum = ctx.add(first, final_point)?;
    let middle = ctx.scaled(sum, 0.5)?;
    let steps = ctx.dim_as(size, DType::F32)?;
    let steps = ctx.plus(steps, -1.0)?;
    let one = ctx.scalar(DType::F32, 1.0)?;
    let divisor = ctx.map("max", &[steps, one])?;
    let span = ctx.sub(final_point, first)?;
    let step = ctx.div(span, divisor)?;
    let index = ctx.positions(DType::F32, &[size], 0)?;
    let moved = ctx.mul(index, step)?;
    let spread = ctx.add(first, moved)?;
    let is_many = ctx.map("ge", &[steps, one])?;
    ctx.select(is_many, spread, middle)
}

fn inside(ctx: &mut NodeContext<'_>, at: ValueId, own: DimId) -> Result<ValueId, Error> {
    let zero = ctx.scalar(DType::F32, 0.0)?;
    let last = ctx.dim_as(own, DType::F32)?;
    let last = ctx.plus(last, -1.0)?;
    let after = ctx.map("ge", &[at, zero])?;
    let before = ctx.map("le", &[at, last])?;
    ctx.map("and", &[after, before])
}

/// The entries nearest to points.
pub(super) fn rounded(
    ctx: &mut NodeContext<'_>,
    at: ValueId,
    rounding: NearestRounding,
) -> Result<ValueId, Error> {
    let (shift, function) = match rounding {
        NearestRounding::PreferFloor => (-0.5, "ceil"),
        NearestRounding::PreferCeil => (0.5, "floor"),
        NearestRounding::Floor => (0.0, "floor"),
        NearestRounding::Ceil => (0.0, "ceil"),
    };
    let at = ctx.plus(at, shift)?;
    ctx.map(function, &[at])
}
