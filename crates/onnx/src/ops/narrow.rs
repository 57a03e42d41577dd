//! Rounding to the values of narrow types.
//!
//! Results are stored in the dtype of [`NarrowType::kept_in`].

use kiln_ir::ValueId;
use kiln_tensor::DType;

use crate::model::FloatFormat;
use crate::{Error, NarrowType, NodeContext};

/// The rounding of a number between two values of a type without fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundMode {
    Up,
    Down,
    Nearest,
}

impl RoundMode {
    /// The attribute `round_mode`.
    pub(super) fn read(ctx: &NodeContext<'_>) -> Result<Self, Error> {
        match ctx.attributes().get_or("round_mode", "up")? {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "nearest" => Ok(Self::Nearest),
            other => {
                let expected = "\"up\", \"down\" or \"nearest\"";
                Err(ctx.attribute_error("round_mode", expected, other))
            }
        }
    }
}

/// `x` rounded to the values of `narrow`. Too large numbers become the maximum value if it saturates, otherwise an infinity
/// or NaN, depending on the type; integers keep their low bits. `mode` is for powers of two.
pub(super) fn rounded(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    narrow: NarrowType,
    saturate: bool,
    mode: RoundMode,
) -> Result<ValueId, Error> {
    let Some(format) = narrow.float_format() else {
        return low_bits(ctx, x, narrow);
    };
    let powers = narrow == NarrowType::F8E8M0;
    let wide = if powers || ctx.dtype(x)? == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let x = ctx.cast(x, wide)?;
    let size = ctx.map("abs", &[x])?;
    let mode = if powers { mode } else { RoundMode::Nearest };
    let nearest = nearest(ctx, size, format, mode)?;
    let largest = ctx.scalar(wide, format.largest)?;
    let mut y = if saturate {
        ctx.map("min", &[nearest, largest])?
    } else {
        let beyond = if format.has_infinities {
            f64::INFINITY
        } else {
            f64::NAN
        };
        let beyond = ctx.scalar(wide, beyond)?;
        let is_beyond = ctx.map("gt", &[nearest, largest])?;
        ctx.map("select", &[is_beyond, beyond, nearest])?
    };
    if powers {
        // No zero, no sign, no infinity.
        let least = ctx.scalar(wide, 2_f64.powi(format.least_exponent))?;
        let nan = ctx.scalar(wide, f64::NAN)?;
        let is_infinite = ctx.map("is_inf", &[x])?;
        y = ctx.map("max", &[y, least])?;
        y = ctx.map("select", &[is_infinite, nan, y])?;
    } else {
        let sign = ctx.map("sign", &[x])?;
        y = ctx.mul(sign, y)?;
    }
    if !format.has_nan {
        let zero = ctx.scalar(wide, 0.0)?;
        let is_nan = ctx.map("is_nan", &[x])?;
        y = ctx.map("select", &[is_nan, zero, y])?;
    }
    ctx.cast(y, narrow.kept_in())
}

/// The nearest value of a format without a maximum, for magnitudes.
fn nearest(
    ctx: &mut NodeContext<'_>,
    size: ValueId,
    format: FloatFormat,
    mode: RoundMode,
) -> Result<ValueId, Error> {
    let least = ctx.scalar_like(size, 2_f64.powi(format.least_exponent))?;
    let most = ctx.scalar_like(size, format.largest * 2.0)?;
    let (half, two) = (ctx.scalar_like(size, 0.5)?, ctx.scalar_like(size, 2.0)?);
    let size = ctx.map("min", &[size, most])?;
    // The power of two at or below; the logarithm may be off by one where it is rounded.
    let exponent = ctx.map("log2", &[size])?;
    let exponent = ctx.map("floor", &[exponent])?;
    let power = ctx.map("exp2", &[exponent])?;
    let lower = ctx.mul(power, half)?;
    let is_above = ctx.map("gt", &[power, size])?;
    let power = ctx.map("select", &[is_above, lower, power])?;
    let upper = ctx.mul(power, two)?;
    let is_below = ctx.map("le", &[upper, size])?;
    let power = ctx.map("select", &[is_below, upper, power])?;
    let power = ctx.map("max", &[power, least])?;
    // Dividing and multiplying by powers of two is exact.
    let unit = ctx.scaled(power, 2_f64.powi(-format.fraction))?;
    let units = ctx.div(size, unit)?;
    let round = match mode {
        RoundMode::Up => "ceil",
        RoundMode::Down => "floor",
        RoundMode::Nearest => "round_even",
    };
    let units = ctx.map(round, &[units])?;
    ctx.mul(units, unit)
}

/// The low bits of integers; floats are truncated to integers first.
fn low_bits(ctx: &mut NodeContext<'_>, x: ValueId, narrow: NarrowType) -> Result<ValueId, Error> {
    let x = if ctx.dtype(x)?.is_float() {
        ctx.cast(x, DType::I32)?
    } else {
        x
    };
    let kept = ctx.cast(x, narrow.kept_in())?;
    if narrow.kept_in() == DType::U8 {
        let mask = ctx.scalar(DType::U8, f64::from((1_u32 << narrow.bits()) - 1))?;
        return ctx.map("bit_and", &[kept, mask]);
    }
    let above = ctx.scalar(DType::I8, f64::from(8 - narrow.bits()))?;
    let moved = ctx.map("shl", &[kept, above])?;
    ctx.map("shr", &[moved, above])
}
