//! Resampling: `Resize`, and `Upsample` before it.
//!
//! Output sizes are given, or are input sizes times scales, rounded down. Scales known at import that are simple fractions
//! become exact expressions over symbolic sizes; others are data, handled in `resize_by_data`. Integers are resampled as
//! floats that represent them, and truncated.

use kiln_ir::{Coordinates, Dims, Indices, NearestRounding, Op, Resize, ResizeMode, ValueId};
use kiln_shape_inference::Element;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::crop_resize::cropped;
use super::resize_by_data::{Sampling, rescaled};
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Resize", &[10, 11, 18], |ctx| as_floats(ctx, resize)),
    operator("Upsample", &[7, 9], |ctx| as_floats(ctx, upsample)),
];

/// The resized axes with their new sizes and, where the model states them, scales (otherwise 0).
struct Target {
    axes: Indices,
    sizes: Dims,
    scales: SmallVec<[f64; 4]>,
}

/// Resamples operand 0 in floats that represent its elements.
fn as_floats(
    ctx: &mut NodeContext<'_>,
    resample: fn(&mut NodeContext<'_>, ValueId) -> Result<ValueId, Error>,
) -> Imported {
    let x = ctx.input(0)?;
    let dtype = ctx.dtype(x)?;
    let wide = match dtype {
        _ if dtype.is_float() => dtype,
        DType::I32 | DType::U32 | DType::I64 | DType::U64 => DType::F64,
        _ => DType::F32,
    };
    let x = ctx.cast(x, wide)?;
    let y = resample(ctx, x)?;
    one(ctx.cast(y, dtype)?)
}

fn upsample(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    let rank = ctx.rank(x)?;
    let axes: Indices = (0..rank).collect();
    let mode = mode(ctx)?;
    let target = if ctx.version() < 9 {
        let scales = ctx.attributes().require::<&[f32]>("scales")?;
        let scales: Vec<f64> = scales.iter().map(|&scale| f64::from(scale)).collect();
        scaled(ctx, x, axes, &scales)?
    } else {
        match by_scales(ctx, x, axes.clone(), 1)? {
            Some(target) => target,
            None => return by_data(ctx, x, &axes, 1, &Sampling::floored(mode)),
        }
    };
    finish(ctx, x, target, |resize| {
        resize.mode = mode;
        resize.coordinates = Coordinates::Asymmetric;
        resize.rounding = NearestRounding::Floor;
    })
}

fn resize(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    let rank = ctx.rank(x)?;
    let mode = mode(ctx)?;
    if ctx.version() < 11 {
        let axes: Indices = (0..rank).collect();
        let Some(target) = by_scales(ctx, x, axes.clone(), 1)? else {
            if mode == ResizeMode::Nearest {
                let what = "scales of version 10 that are known only when the model runs: how the nearest entry is found \
                            depends on them";
                return Err(ctx.unsupported(what));
            }
            return by_data(ctx, x, &axes, 1, &Sampling::floored(mode));
        };
        // In this version, nearest rounds up when shrinking, and down when enlarging.
        let shrinks = target
            .scales
            .iter()
            .any(|&scale| scale > 0.0 && scale < 1.0);
        return finish(ctx, x, target, |resize| {
            resize.mode = mode;
            resize.coordinates = Coordinates::Asymmetric;
            resize.rounding = if shrinks {
                NearestRounding::Ceil
            } else {
                NearestRounding::Floor
            };
        });
    }
    let axes: Indices = match ctx.attributes().get::<&[i64]>("axes")? {
        Some(axes) => axes
            .iter()
            .map(|&axis| ctx.axis(axis, rank))
            .collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let target = match (is_given(ctx, 3)?, is_given(ctx, 2)?) {
        (true, _) => Some(by_sizes(ctx, x, axes.clone())?),
        (false, true) => by_scales(ctx, x, axes.clone(), 2)?,
        (false, false) => return Err(ctx.operand_error(2, "scales or sizes", "neither")),
    };
    let (coordinates, rounding) = coordinates(ctx)?;
    let Some(target) = target else {
        let coordinates = coordinates
            .ok_or_else(|| ctx.unsupported("a cropped region with scales that are data"))?;
        let sampling = Sampling {
            mode,
            coordinates,
            rounding,
        };
        return by_data(ctx, x, &axes, 2, &sampling);
    };
    let Some(coordinates) = coordinates else {
        let sizes = (&target.axes, target.sizes.as_slice());
        return cropped(ctx, x, sizes, mode, rounding);
    };
    let cubic_coefficient = ctx.attributes().get_or("cubic_coeff_a", -0.75_f32)?;
    let exclude_outside = ctx.flag("exclude_outside", false)?;
    let antialias = ctx.flag("antialias", false)?;
    finish(ctx, x, target, |resize| {
        resize.mode = mode;
        resize.coordinates = coordinates;
        resize.rounding = rounding;
        resize.cubic_coefficient = f64::from(cubic_coefficient);
        resize.exclude_outside = exclude_outside;
        resize.antialias = antialias;
    })
}

/// Whether the operand exists and is not the empty tensor that old exporters write for "none".
fn is_given(ctx: &NodeContext<'_>, index: usize) -> Result<bool, Error> {
    let Some(value) = ctx.optional(index) else {
        return Ok(false);
    };
    let dims = ctx.shape(value)?;
    Ok(dims.first().and_then(|&dim| ctx.known(dim)) != Some(0))
}

fn mode(ctx: &NodeContext<'_>) -> Result<ResizeMode, Error> {
    match ctx.attributes().get_or("mode", "nearest")? {
        "nearest" => Ok(ResizeMode::Nearest),
        "linear" | "bilinear" => Ok(ResizeMode::Linear),
        "cubic" => Ok(ResizeMode::Cubic),
        other => {
            let expected = "\"nearest\", \"linear\" or \"cubic\"";
            Err(ctx.attribute_error("mode", expected, other))
        }
    }
}

/// The mapping from positions to coordinates; `None` if a region is cropped.
fn coordinates(ctx: &NodeContext<'_>) -> Result<(Option<Coordinates>, NearestRounding), Error> {
    let attributes = ctx.attributes();
    let rounding = match attributes.get_or("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => NearestRounding::PreferFloor,
        "round_prefer_ceil" => NearestRounding::PreferCeil,
        "floor" => NearestRounding::Floor,
        "ceil" => NearestRounding::Ceil,
        other => {
            let expected = "a rounding mode that ONNX defines";
            return Err(ctx.attribute_error("nearest_mode", expected, other));
        }
    };
    let name = "coordinate_transformation_mode";
    let (coordinates, rounding) = match attributes.get_or(name, "half_pixel")? {
        "half_pixel" => (Coordinates::HalfPixel, rounding),
        "half_pixel_symmetric" => (Coordinates::HalfPixelSymmetric, rounding),
        "pytorch_half_pixel" => (Coordinates::PytorchHalfPixel, rounding),
        "align_corners" => (Coordinates::AlignCorners, rounding),
        "asymmetric" => (Coordinates::Asymmetric, rounding),
        "tf_crop_and_resize" => return Ok((None, rounding)),
        // floor((x + 0.5) / scale) is `HalfPixel` rounded to the nearest, halves up.
        "tf_half_pixel_for_nn" if rounding == NearestRounding::Floor => {
            (Coordinates::HalfPixel, NearestRounding::PreferCeil)
        }
        other => return Err(ctx.unsupported(format!("coordinates {other:?}"))),
    };
    Ok((Some(coordinates), rounding))
}

/// Output sizes from operand 3, optionally with the operand's aspect ratio kept.
fn by_sizes(ctx: &mut NodeContext<'_>, x: ValueId, axes: Indices) -> Result<Target, Error> {
    let sizes = ctx.sizes_of(3)?;
    expect_length(ctx, 3, sizes.len(), axes.len())?;
    let policy = ctx
        .attributes()
        .get_or("keep_aspect_ratio_policy", "stretch")?;
    if policy == "stretch" {
        let scales = axes.iter().map(|_| 0.0).collect();
        let sizes = sizes.into_iter().collect();
        return Ok(Target {
            axes,
            sizes,
            scales,
        });
    }
    let own = ctx.shape(x)?;
    let known = |dim: DimId| ctx.known(dim).map(|size| size as f64);
    let ratios: Option<Vec<f64>> = axes
        .iter()
        .zip(&sizes)
        .map(|(&axis, &size)| Some(known(size)? / known(own[axis])?))
        .collect();
    let Some(ratios) = ratios else {
        return Err(ctx.unsupported("keeping the aspect ratio of symbolic sizes"));
    };
    let scale = match policy {
        "not_larger" => ratios.iter().copied().fold(f64::INFINITY, f64::min),
        "not_smaller" => ratios.iter().copied().fold(0.0, f64::max),
        other => {
            let expected = "\"stretch\", \"not_larger\" or \"not_smaller\"";
            return Err(ctx.attribute_error("keep_aspect_ratio_policy", expected, other));
        }
    };
    let sizes = axes.iter().map(|&axis| {
        // To the nearest, halves up.
        let size = ctx.known(own[axis]).unwrap_or(0) as f64 * scale;
        ctx.size((size + 0.5).floor() as i64)
    });
    let sizes = sizes.collect();
    let scales = axes.iter().map(|_| scale).collect();
    Ok(Target {
        axes,
        sizes,
        scales,
    })
}

/// Input sizes times the scales of operand `index`; `None` if the scales are data.
fn by_scales(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: Indices,
    index: usize,
) -> Result<Option<Target>, Error> {
    let value = ctx.input(index)?;
    let Some(scales) = ctx.constant_floats(value) else {
        return by_known_ratios(ctx, x, &axes, value);
    };
    expect_length(ctx, index, scales.len(), axes.len())?;
    let own = ctx.shape(x)?;
    let is_symbolic = |(&axis, &scale): (&usize, &f64)| {
        ctx.known(own[axis]).is_none() && as_fraction(scale).is_none()
    };
    let is_sound = scales.iter().all(|&scale| scale.is_finite() && scale > 0.0);
    if is_sound && axes.iter().zip(&scales).any(is_symbolic) {
        return Ok(None);
    }
    scaled(ctx, x, axes, &scales).map(Some)
}

/// Resizes by scales that are data, in operand `index`.
fn by_data(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: &[usize],
    index: usize,
    sampling: &Sampling,
) -> Result<ValueId, Error> {
    for name in ["exclude_outside", "antialias"] {
        if ctx.flag(name, false)? {
            let what = format!("{name} with scales that are known only when the model runs");
            return Err(ctx.unsupported(what));
        }
    }
    let coefficient = ctx.attributes().get_or("cubic_coeff_a", -0.75_f32)?;
    if sampling.mode == ResizeMode::Cubic && coefficient != -0.75 {
        let what = format!(
            "a cubic coefficient of {coefficient} with scales that are known only when the model runs"
        );
        return Err(ctx.unsupported(what));
    }
    let scales = ctx.input(index)?;
    let length = ctx.dims_of_rank::<1>(index, scales)?[0];
    if let Some(length) = ctx.known(length) {
        expect_length(ctx, index, usize::try_from(length).unwrap_or(0), axes.len())?;
    }
    rescaled(ctx, x, axes, scales, sampling)
}

/// Scales that are quotients of sizes, for example `target / size`: if nothing is rounded, the scale is again the
/// quotient of the sizes.
fn by_known_ratios(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: &Indices,
    value: ValueId,
) -> Result<Option<Target>, Error> {
    let Some(known) = ctx.builder().known(value) else {
        return Ok(None);
    };
    let ratios: Option<Vec<_>> = known
        .elements()
        .map(|element| match element {
            Element::Ratio(ratio) => Some(ratio),
            Element::Dim(_) | Element::Unknown => None,
        })
        .collect();
    let Some(ratios) = ratios.filter(|ratios| ratios.len() == axes.len()) else {
        return Ok(None);
    };
    let own = ctx.shape(x)?;
    let mut sizes = Dims::new();
    for (&axis, ratio) in axes.iter().zip(&ratios) {
        let size = own[axis];
        let exact = ctx.sizes(|table| {
            let denominator = table.constant(ratio.denominator);
            let product = table.mul(size, ratio.numerator)?;
            Ok(table.exact_quotient(product, denominator))
        })?;
        match exact {
            Some(exact) => sizes.push(exact),
            None => return Ok(None),
        }
    }
    Ok(Some(Target {
        axes: axes.clone(),
        sizes,
        scales: axes.iter().map(|_| 0.0).collect(),
    }))
}

/// Input sizes times constant scales.
fn scaled(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: Indices,
    scales: &[f64],
) -> Result<Target, Error> {
    let own = ctx.shape(x)?;
    expect_length(ctx, 1, scales.len(), axes.len())?;
    let mut sizes = Dims::new();
    for (&axis, &scale) in axes.iter().zip(scales) {
        if !scale.is_finite() || scale <= 0.0 {
            return Err(ctx.operand_error(1, "positive scales", scale.to_string()));
        }
        sizes.push(match ctx.known(own[axis]) {
            // In f32, as in the operator's definition.
            Some(size) => ctx.size((size as f32 * scale as f32).floor() as i64),
            None => {
                let Some((numerator, denominator)) = as_fraction(scale) else {
                    let what = format!(
                        "a scale of {scale}, which is not a simple fraction, of a symbolic size"
                    );
                    return Err(ctx.unsupported(what));
                };
                let size = own[axis];
                ctx.sizes(|table| {
                    let (numerator, denominator) =
                        (table.constant(numerator), table.constant(denominator));
                    let product = table.mul(size, numerator)?;
                    table.floor_div(product, denominator)
                })?
            }
        });
    }
    Ok(Target {
        axes,
        sizes,
        scales: scales.into(),
    })
}

/// The fraction with the smallest denominator that rounds to the scale as an f32.
fn as_fraction(scale: f64) -> Option<(i64, i64)> {
    const LARGEST_DENOMINATOR: i64 = 4096;
    (1..=LARGEST_DENOMINATOR).find_map(|denominator| {
        let numerator = (scale * denominator as f64).round();
        let same = (numerator / denominator as f64) as f32 == scale as f32;
        (same && (1.0..1e9).contains(&numerator)).then_some((numerator as i64, denominator))
    })
}

fn expect_length(
    ctx: &NodeContext<'_>,
    index: usize,
    found: usize,
    expected: usize,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let expected = format!("{expected} elements, one per resized axis");
    Err(ctx.operand_error(index, expected, found.to_string()))
}

/// Adds the operation for those axes that change.
fn finish(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    target: Target,
    configure: impl FnOnce(&mut Resize),
) -> Result<ValueId, Error> {
    let own = ctx.shape(x)?;
    let mut resize = Resize {
        axes: Indices::new(),
        sizes: Dims::new(),
        scales: SmallVec::new(),
        mode: ResizeMode::Nearest,
        coordinates: Coordinates::HalfPixel,
        rounding: NearestRounding::PreferFloor,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        antialias: false,
    };
    configure(&mut resize);
    for ((&axis, &size), &scale) in target.axes.iter().zip(&target.sizes).zip(&target.scales) {
        if size == own[axis] && (scale == 0.0 || scale == 1.0) {
            continue;
        }
        resize.axes.push(axis);
        resize.sizes.push(size);
        resize.scales.push(scale);
    }
    if resize.axes.is_empty() {
        return Ok(x);
    }
    ctx.op(Op::Resize(resize), &[x])
}

#[cfg(test)]
mod tests {
    use super::as_fraction;

    #[test]
    fn scales_become_the_simplest_fraction_that_rounds_to_them() {
        assert_eq!(as_fraction(2.0), Some((2, 1)));
        assert_eq!(as_fraction(0.5), Some((1, 2)));
        assert_eq!(as_fraction(f64::from(0.6_f32)), Some((3, 5)));
        assert_eq!(as_fraction(f64::from(1.0_f32 / 3.0)), Some((1, 3)));
        assert_eq!(as_fraction(f64::from(std::f32::consts::PI)), None);
    }
}
