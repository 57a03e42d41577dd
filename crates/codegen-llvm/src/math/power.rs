//! `pow` and `rsqrt`.
//!
//! `x^y = 2^(y log2 |x|)`. In f64 the logarithm and the product are double-word numbers, so that the error that the
//! exponential magnifies is small; f32 is computed in f64.

use inkwell::FloatPredicate;

use super::common::{clamp, is_f32};
use super::exponential::{exp2_short, exp2_twofold};
use super::logarithm::{log2_short, log2_twofold, parity};
use crate::emit::{Emitter, Value};

/// `x` to the power of `y`, with the special cases of C's `pow`.
pub(crate) fn pow<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>, y: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        let (x, y) = (e.extend_float(x), e.extend_float(y));
        let bounded = clamp(e, y, -(2f64.powi(66)), 2f64.powi(66));
        let exponent = e.fmul(log2_short(e, e.fabs(x)), bounded);
        let magnitude = exp2_short(e, clamp(e, exponent, -1100.0, 1100.0));
        return e.narrow_float(edges(e, x, y, magnitude));
    }
    let logarithm = log2_twofold(e, e.fabs(x));
    // Beyond this, the result is outside the range of floats, or is 1.
    let bounded = clamp(e, y, -(2f64.powi(66)), 2f64.powi(66));
    let exponent = e.twofold_scale(logarithm, bounded);
    let high = clamp(e, exponent.high, -1100.0, 1100.0);
    let low = clamp(e, exponent.low, -1.0, 1.0);
    edges(e, x, y, exp2_twofold(e, high, low))
}

/// `1 / sqrt(x)`; minus infinity for -0.
pub(crate) fn rsqrt<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    e.fdiv(e.float(x, 1.0), e.sqrt(x))
}

/// Applies the sign of the power, and the special cases.
fn edges<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    y: Value<'ctx>,
    magnitude: Value<'ctx>,
) -> Value<'ctx> {
    let (zero, one) = (e.float(x, 0.0), e.float(x, 1.0));
    let infinity = e.float(x, f64::INFINITY);
    let nan = e.float(x, f64::NAN);
    let equals = |a, b| e.fcmp(FloatPredicate::OEQ, a, b);
    let (integral, odd) = parity(e, y);

    // Zeros and infinities: one or the other, by the sign of y.
    let is_zero = equals(x, zero);
    let is_infinite = equals(e.fabs(x), infinity);
    let y_positive = e.fcmp(FloatPredicate::OGT, y, zero);
    let grows = e.xor(is_zero, y_positive);
    let extreme = e.select(grows, infinity, zero);
    let result = e.select(e.or(is_zero, is_infinite), extreme, magnitude);

    // A negative base, -0 included, needs an integral exponent.
    let signed = e.select(odd, e.copysign(result, x), result);
    let below = e.fcmp(FloatPredicate::OLT, x, zero);
    let finite = e.not(is_infinite);
    let undefined = e.and(e.and(below, finite), e.not(integral));
    let result = e.select(undefined, nan, signed);

    let unordered = e.fcmp(FloatPredicate::UNO, x, y);
    let result = e.select(unordered, nan, result);
    let is_one = e.or(equals(x, one), equals(y, zero));
    e.select(is_one, one, result)
}
