//! Bit casts between numbers.
//!
//! Between integers a cast keeps the bits. Between floats and integers they are computed: exactly for every number and
//! infinity; any NaN becomes the quiet NaN without further bits.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::cast::dtype_of;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("BitCast", &[26], bit_cast)];

/// A float's layout.
#[derive(Clone, Copy)]
struct Layout {
    float: DType,
    /// The signed integer of the same width.
    integer: DType,
    /// Bits of the fraction.
    fraction: i32,
    /// The bias of the exponent.
    bias: i32,
}

impl Layout {
    fn of(float: DType) -> Option<Self> {
        let (integer, fraction, bias) = match float {
            DType::F64 => (DType::I64, 52, 1023),
            DType::F32 => (DType::I32, 23, 127),
            DType::F16 => (DType::I16, 10, 15),
            DType::BF16 => (DType::I16, 7, 127),
            _ => return None,
        };
        Some(Self {
            float,
            integer,
            fraction,
            bias,
        })
    }

    /// The dtype in which no intermediate value is rounded.
    fn wide(self) -> DType {
        if self.float == DType::F64 {
            DType::F64
        } else {
            DType::F32
        }
    }

    /// The bits of infinity: every bit of the exponent.
    fn infinity(self) -> f64 {
        f64::from(2 * self.bias + 1) * 2_f64.powi(self.fraction)
    }
}

fn bit_cast(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let to = ctx.attributes().require::<i64>("to")?;
    let to = dtype_of(ctx, to)?;
    let from = ctx.dtype(x)?;
    if from.bits() != to.bits() {
        return Err(ctx.attribute_error("to", format!("a type of {} bits", from.bits()), to));
    }
    let (source, target) = (Layout::of(from), Layout::of(to));
    if from == to {
        return one(x);
    }
    let bits = match source {
        Some(layout) => float_to_bits(ctx, x, layout)?,
        None => x,
    };
    match target {
        Some(layout) => {
            let bits = ctx.cast(bits, layout.integer)?;
            one(bits_to_float(ctx, bits, layout)?)
        }
        None => one(ctx.cast(bits, to)?),
    }
}

/// `2` to an integral power between the minimum and the maximum normal one; exact.
fn power(ctx: &mut NodeContext<'_>, exponent: ValueId) -> Result<ValueId, Error> {
    ctx.map("exp2", &[exponent])
}

fn float_to_bits(ctx: &mut NodeContext<'_>, x: ValueId, layout: Layout) -> Result<ValueId, Error> {
    let (wide, integer) = (layout.wide(), layout.integer);
    let x = ctx.cast(x, wide)?;
    let size = ctx.map("abs", &[x])?;
    let least = ctx.scalar(wide, f64::from(1 - layout.bias))?;
    let most = ctx.scalar(wide, f64::from(layout.bias))?;
    let logarithm = ctx.map("log2", &[size])?;
    let exponent = ctx.map("floor", &[logarithm])?;
    let exponent = ctx.map("clip", &[exponent, least, most])?;
    // The logarithm may be off by one because of rounding.
    let (below, above) = (ctx.plus(exponent, -1.0)?, ctx.plus(exponent, 1.0)?);
    let own = power(ctx, exponent)?;
    let too_high = ctx.map("gt", &[own, size])?;
    let exponent = ctx.select(too_high, below, exponent)?;
    let next = power(ctx, above)?;
    let too_low = ctx.map("le", &[next, size])?;
    let exponent = ctx.select(too_low, above, exponent)?;
    let exponent = ctx.map("clip", &[exponent, least, most])?;
    // Subnormal numbers have the minimum exponent and no leading 1, which then counts as one of the exponent.
    let unit = power(ctx, exponent)?;
    let fraction = ctx.div(size, unit)?;
    let fraction = ctx.scaled(fraction, 2_f64.powi(layout.fraction))?;
    let fraction = ctx.cast(fraction, DType::I64)?;
    let exponent = ctx.plus(exponent, f64::from(layout.bias - 1))?;
    let exponent = ctx.cast(exponent, DType::I64)?;
    let leading = ctx.scalar(DType::I64, 2_f64.powi(layout.fraction))?;
    let exponent = ctx.mul(exponent, leading)?;
    let bits = ctx.add(exponent, fraction)?;
    let infinity = ctx.scalar(DType::I64, layout.infinity())?;
    let quiet = ctx.scalar(
        DType::I64,
        layout.infinity() + 2_f64.powi(layout.fraction - 1),
    )?;
    let (is_infinite, is_nan) = (ctx.map("is_inf", &[x])?, ctx.map("is_nan", &[x])?);
    let bits = ctx.select(is_infinite, infinity, bits)?;
    let bits = ctx.select(is_nan, quiet, bits)?;
    // The sign of a zero shows in quotients by it.
    let (zero, one) = (ctx.scalar(wide, 0.0)?, ctx.scalar(wide, 1.0)?);
    let inverse = ctx.div(one, x)?;
    let negative = ctx.map("lt", &[x, zero])?;
    let negative_inverse = ctx.map("lt", &[inverse, zero])?;
    let negative = ctx.map("or", &[negative, negative_inverse])?;
    let sign = ctx.scalar(DType::I64, -(2_f64.powi(layout.integer.bits() as i32 - 1)))?;
    let signed = ctx.add(bits, sign)?;
    let bits = ctx.select(negative, signed, bits)?;
    ctx.cast(bits, integer)
}

fn bits_to_float(
    ctx: &mut NodeContext<'_>,
    bits: ValueId,
    layout: Layout,
) -> Result<ValueId, Error> {
    let wide = layout.wide();
    let zero = ctx.scalar_like(bits, 0.0)?;
    let negative = ctx.map("lt", &[bits, zero])?;
    let fraction_bits = ctx.scalar_like(bits, f64::from(layout.fraction))?;
    let exponent_mask = ctx.scalar_like(bits, f64::from(2 * layout.bias + 1))?;
    let fraction_mask = ctx.scalar_like(bits, 2_f64.powi(layout.fraction) - 1.0)?;
    let exponent = ctx.map("shr", &[bits, fraction_bits])?;
    let exponent = ctx.map("bit_and", &[exponent, exponent_mask])?;
    let fraction = ctx.map("bit_and", &[bits, fraction_mask])?;
    let special = ctx.map("eq", &[exponent, exponent_mask])?;
    let subnormal = ctx.map("eq", &[exponent, zero])?;
    let has_fraction = ctx.map("ne", &[fraction, zero])?;
    let fraction = ctx.cast(fraction, wide)?;
    let fraction = ctx.scaled(fraction, 2_f64.powi(-layout.fraction))?;
    let normal = ctx.plus(fraction, 1.0)?;
    let fraction = ctx.select(subnormal, fraction, normal)?;
    let exponent = ctx.cast(exponent, wide)?;
    let exponent = ctx.plus(exponent, f64::from(-layout.bias))?;
    let least = ctx.scalar(wide, f64::from(1 - layout.bias))?;
    let exponent = ctx.map("max", &[exponent, least])?;
    let unit = power(ctx, exponent)?;
    let number = ctx.mul(fraction, unit)?;
    let (infinity, nan) = (
        ctx.scalar(wide, f64::INFINITY)?,
        ctx.scalar(wide, f64::NAN)?,
    );
    let odd = ctx.select(has_fraction, nan, infinity)?;
    let number = ctx.select(special, odd, number)?;
    let minus = ctx.map("neg", &[number])?;
    let number = ctx.select(negative, minus, number)?;
    ctx.cast(number, layout.float)
}
