//! Helpers of the math functions: polynomials, powers of two, the integer bits of floats.

use inkwell::{FloatPredicate, IntPredicate};

use crate::emit::{Elem, Emitter, Value, elem};

/// A number rounded to an integer, as a float and as integer bits of the same width.
#[derive(Clone, Copy)]
pub(super) struct Rounded<'ctx> {
    pub(super) float: Value<'ctx>,
    pub(super) integer: Value<'ctx>,
}

/// Rounds numbers below `2^(fraction bits - 2)` to nearest even; NaN gives NaN and an arbitrary integer.
pub(super) fn round<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Rounded<'ctx> {
    let magic = rounding_constant(e, x);
    split_off_integer(e, e.fadd(x, magic), magic)
}

/// `round` of a product, which may itself be rounded first.
pub(super) fn round_product<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    factor: f64,
) -> Rounded<'ctx> {
    let magic = rounding_constant(e, x);
    split_off_integer(e, e.fma(x, e.float(x, factor), magic), magic)
}

/// Adding this number leaves an integer in the low bits of the sum.
fn rounding_constant<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    e.float(x, 1.5 * 2f64.powi(fraction_bits(elem(x)) as i32))
}

fn split_off_integer<'ctx>(
    e: &Emitter<'_, 'ctx>,
    shifted: Value<'ctx>,
    magic: Value<'ctx>,
) -> Rounded<'ctx> {
    Rounded {
        float: e.fsub(shifted, magic),
        integer: e.isub(e.to_bits(shifted), e.to_bits(magic)),
    }
}

/// `c0 + c1 x + c2 x^2 + …`, coefficients lowest first.
pub(super) fn polynomial<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    coefficients: &[f64],
) -> Value<'ctx> {
    let mut rest = coefficients.iter().rev();
    let highest = rest.next().copied().unwrap_or(0.0);
    rest.fold(e.float(x, highest), |sum, &coefficient| {
        e.fma(sum, x, e.float(x, coefficient))
    })
}

/// The same with neighbouring coefficients paired: half the dependency chain.
pub(super) fn polynomial_in_pairs<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    coefficients: &[f64],
) -> Value<'ctx> {
    let square = e.fmul(x, x);
    let pairs = coefficients.chunks(2).rev().map(|pair| match *pair {
        [low, high] => e.fma(e.float(x, high), x, e.float(x, low)),
        [low] => e.float(x, low),
        _ => unreachable!("chunks have one or two elements"),
    });
    let sum = pairs.reduce(|sum, pair| e.fma(sum, square, pair));
    sum.unwrap_or_else(|| e.float(x, 0.0))
}

/// `2^n` for integers in the range of normal exponents, as the float of their width.
pub(super) fn power_of_two<'ctx>(e: &Emitter<'_, 'ctx>, n: Value<'ctx>) -> Value<'ctx> {
    let (bias, fraction) = match elem(n) {
        Elem::I32 => (127, 23),
        _ => (1023, 52),
    };
    let biased = e.iadd(n, e.int(n, bias));
    e.bits_to_float(e.shl(biased, e.int(n, fraction)))
}

/// `2^n` as two factors, the first of which times a number near 1 is exact, for `n` up to a quarter beyond the range of
/// exponents: a result out of range, or subnormal, becomes so by the second factor, with one rounding.
pub(super) fn power_factors<'ctx>(
    e: &Emitter<'_, 'ctx>,
    n: Rounded<'ctx>,
) -> (Value<'ctx>, Value<'ctx>) {
    // The second exponent is half the range, with the sign of `n`; the first is the rest.
    let (bias, fraction, half) = exponents(n);
    let exponent = |exponent: i64| e.int(n.integer, (bias + exponent) << fraction);
    let (small, large) = (exponent(-half), exponent(half));
    let sign = e.to_bits(n.float);
    let is_negative = e.icmp(IntPredicate::SLT, sign, e.int(sign, 0));
    let shifted = e.shl(n.integer, e.int(n.integer, fraction));
    let first = e.iadd(shifted, e.select(is_negative, large, small));
    let second = e.select(is_negative, small, large);
    (e.bits_to_float(first), e.bits_to_float(second))
}

/// The same for `n <= 0`.
pub(super) fn power_factors_down<'ctx>(
    e: &Emitter<'_, 'ctx>,
    n: Rounded<'ctx>,
) -> (Value<'ctx>, Value<'ctx>) {
    let (bias, fraction, half) = exponents(n);
    let exponent = |exponent: i64| e.int(n.integer, (bias + exponent) << fraction);
    let shifted = e.shl(n.integer, e.int(n.integer, fraction));
    let first = e.iadd(shifted, exponent(half));
    (e.bits_to_float(first), e.bits_to_float(exponent(-half)))
}

/// The bias of exponents, the bits below them, and half their range.
fn exponents(n: Rounded<'_>) -> (i64, i64, i64) {
    match elem(n.float) {
        Elem::F32 => (127, 23, 64),
        _ => (1023, 52, 512),
    }
}

/// `x * 2^n` with one rounding, for `x` near 1 and `n` as [`power_factors`] takes it.
pub(super) fn scale<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>, n: Rounded<'ctx>) -> Value<'ctx> {
    if let Some(scaled) = e.scaled_by_power(x, n.float) {
        return scaled;
    }
    let (first, second) = power_factors(e, n);
    e.fmul(e.fmul(x, first), second)
}

/// `x` clamped to two limits; NaN is kept.
pub(super) fn clamp<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    low: f64,
    high: f64,
) -> Value<'ctx> {
    let x = e.fmin_loose(e.float(x, high), x);
    e.fmax_loose(e.float(x, low), x)
}

/// `result`, but `x` itself if that is so small that the two are equal; keeps -0.
pub(super) fn itself_below<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    limit: f64,
    result: Value<'ctx>,
) -> Value<'ctx> {
    let is_small = e.fcmp(FloatPredicate::OLT, e.fabs(x), e.float(x, limit));
    e.select(is_small, x, result)
}

/// NaN where `x` is infinite or NaN.
pub(super) fn nan_unless_finite<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    result: Value<'ctx>,
) -> Value<'ctx> {
    let finite = e.fcmp(FloatPredicate::OLT, e.fabs(x), e.float(x, f64::INFINITY));
    e.select(finite, result, e.float(x, f64::NAN))
}

/// A function of f64 lanes applied to f32 lanes, rounded once.
pub(super) fn through_f64<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    function: impl FnOnce(&Emitter<'_, 'ctx>, Value<'ctx>) -> Value<'ctx>,
) -> Value<'ctx> {
    e.narrow_float(function(e, e.extend_float(x)))
}

pub(super) fn is_f32(x: Value<'_>) -> bool {
    elem(x) == Elem::F32
}

pub(super) fn fraction_bits(elem: Elem) -> u32 {
    match elem {
        Elem::F32 => 23,
        _ => 52,
    }
}
