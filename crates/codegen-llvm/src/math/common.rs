//! What the functions share: polynomials, powers of two, integers hidden in floats.

use inkwell::FloatPredicate;

use crate::emit::{Elem, Emitter, Value, elem};

/// A number rounded to an integer, as a float and as bits of the same width.
#[derive(Clone, Copy)]
pub(super) struct Rounded<'ctx> {
    pub(super) float: Value<'ctx>,
    pub(super) integer: Value<'ctx>,
}

/// Rounds to nearest even numbers below `2^(fraction bits - 2)`; NaN gives NaN and some integer.
pub(super) fn round<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Rounded<'ctx> {
    let magic = rounding_constant(e, x);
    split_off_integer(e, e.fadd(x, magic), magic)
}

/// `round` of a product, which may be rounded before.
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

/// `2^n` for integers in the range of normal exponents, as the float of their width.
pub(super) fn power_of_two<'ctx>(e: &Emitter<'_, 'ctx>, n: Value<'ctx>) -> Value<'ctx> {
    let (bias, fraction) = match elem(n) {
        Elem::I32 => (127, 23),
        _ => (1023, 52),
    };
    let biased = e.iadd(n, e.int(n, bias));
    e.bits_to_float(e.shl(biased, e.int(n, fraction)))
}

/// `x * 2^n` with one rounding, for `n` up to twice the range of exponents; over- and underflow
/// are as they should be.
pub(super) fn scale<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>, n: Rounded<'ctx>) -> Value<'ctx> {
    // The first factor is exact in all cases but those that the second leads out of range.
    let first = match elem(x) {
        Elem::F32 => e.ashr(n.integer, e.int(n.integer, 1)),
        // Halving floats is cheaper than shifting 64-bit integers that have a sign.
        _ => round(e, e.fmul(n.float, e.float(x, 0.5))).integer,
    };
    let second = e.isub(n.integer, first);
    let x = e.fmul(x, power_of_two(e, first));
    e.fmul(x, power_of_two(e, second))
}

/// `x` held between two limits; NaN stays.
pub(super) fn clamp<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    low: f64,
    high: f64,
) -> Value<'ctx> {
    let x = e.fmin_loose(e.float(x, high), x);
    e.fmax_loose(e.float(x, low), x)
}

/// `result`, but `x` itself where it is so small that it is its own value; keeps -0.
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

/// A function of f64 lanes on f32 lanes, rounded once.
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
