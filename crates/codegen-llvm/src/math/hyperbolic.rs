//! Hyperbolic functions and their inverses.
//!
//! All reduce to `exp`, `expm1` and `log1p`, in forms without cancellation; `sinh` near zero is a polynomial (minimax,
//! `tools/minimax.py`). f32 is computed in f64, except for `tanh`.

use std::f64::consts::LN_2;

use inkwell::FloatPredicate;

use super::common::{is_f32, itself_below, polynomial, scale, through_f64};
use super::exponential::{exp_parts, expm1};
use super::logarithm::log1p;
use crate::emit::{Emitter, Value};

/// Error 2^-63.3.
const SINH_F64: [f64; 7] = [
    0.16666666666666669,
    0.008333333333333148,
    0.00019841269841431862,
    2.755731915707385e-06,
    2.5052123136539082e-08,
    1.6057259774426704e-10,
    7.758748851205976e-13,
];

/// The hyperbolic tangent.
pub(crate) fn tanh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    // -t / (2 + t) with t = e^(-2 |x|) - 1, which is between -1 and 0.
    let magnitude = e.fabs(x);
    let t = expm1(e, e.fmul(magnitude, e.float(x, -2.0)));
    let quotient = e.fdiv(t, e.fadd(t, e.float(x, 2.0)));
    e.copysign(quotient, x)
}

/// The hyperbolic sine.
pub(crate) fn sinh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, sinh);
    }
    let magnitude = e.fabs(x);
    let (grown, shrunk) = half_exponentials(e, magnitude);
    let large = e.copysign(e.fsub(grown, shrunk), x);
    let z = e.fmul(x, x);
    let small = e.fma(e.fmul(x, z), polynomial(e, z, &SINH_F64), x);
    let is_small = e.fcmp(FloatPredicate::OLT, magnitude, e.float(x, 1.0));
    itself_below(e, x, 2f64.powi(-27), e.select(is_small, small, large))
}

/// The hyperbolic cosine.
pub(crate) fn cosh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, cosh);
    }
    let (grown, shrunk) = half_exponentials(e, e.fabs(x));
    e.fadd(grown, shrunk)
}

/// `e^x / 2` and `e^-x / 2`, without overflow before the result overflows.
fn half_exponentials<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> (Value<'ctx>, Value<'ctx>) {
    let (n, power) = exp_parts(e, x);
    let half = e.float(x, 0.5);
    let grown = scale(e, e.fmul(power, half), n);
    // From 40 on, the smaller one is below the precision of the larger one, and the quotient is 0.
    (grown, e.fdiv(e.float(x, 0.25), grown))
}

/// The inverse hyperbolic sine.
pub(crate) fn asinh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, asinh);
    }
    let magnitude = e.fabs(x);
    let one = e.float(x, 1.0);
    // log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1)))
    let square = e.fmul(magnitude, magnitude);
    let root = e.sqrt(e.fadd(square, one));
    let inside = e.fadd(magnitude, e.fdiv(square, e.fadd(one, root)));
    e.copysign(log1p_or_log_twice(e, magnitude, inside), x)
}

/// The inverse hyperbolic cosine; NaN below 1.
pub(crate) fn acosh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, acosh);
    }
    // log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(2 t + t^2)) with t = x - 1
    let t = e.fsub(x, e.float(x, 1.0));
    let root = e.sqrt(e.fma(t, t, e.fadd(t, t)));
    let result = log1p_or_log_twice(e, x, e.fadd(t, root));
    let below = e.fcmp(FloatPredicate::OLT, t, e.float(x, 0.0));
    e.select(below, e.float(x, f64::NAN), result)
}

/// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
pub(crate) fn atanh<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, atanh);
    }
    // log((1 + x) / (1 - x)) / 2 = log1p(2 x / (1 - x)) / 2
    let magnitude = e.fabs(x);
    let rest = e.fsub(e.float(x, 1.0), magnitude);
    let inside = e.fdiv(e.fadd(magnitude, magnitude), rest);
    let result = e.fmul(log1p(e, inside), e.float(x, 0.5));
    e.copysign(result, x)
}

/// `log1p(inside)`, or `log(2 x)` for `x` so large that they are equal.
fn log1p_or_log_twice<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    inside: Value<'ctx>,
) -> Value<'ctx> {
    let is_large = e.fcmp(FloatPredicate::OGT, x, e.float(x, 2f64.powi(60)));
    let logarithm = log1p(e, e.select(is_large, x, inside));
    let more = e.select(is_large, e.float(x, LN_2), e.float(x, 0.0));
    e.fadd(logarithm, more)
}
