//! Inverse sine, cosine and tangent, of one argument and of two.
//!
//! The inverse tangent subtracts `pi/4` or `pi/2` so that the remaining argument is at most `tan(pi/8)`; the inverse sine
//! above 1/2 uses `sqrt((1 - x) / 2)`. f32 is computed in f64. Polynomials are minimax (`tools/minimax.py`), in the
//! relative error of the function.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use inkwell::{FloatPredicate, IntPredicate};

use super::common::{is_f32, itself_below, polynomial, through_f64};
use crate::emit::{Emitter, Value};

/// Error 2^-59.4.
const ATAN_F64: [f64; 11] = [
    -0.333333333333332,
    0.1999999999995321,
    -0.1428571428016238,
    0.11111110781925097,
    -0.0909089771815126,
    0.07692059584095824,
    -0.06663097623108259,
    0.05847847380951112,
    -0.05039135357791184,
    0.03806070846031887,
    -0.017903441000695398,
];

/// Error 2^-59.9.
const ASIN_F64: [f64; 13] = [
    0.1666666666666676,
    0.07499999999970784,
    0.04464285717462497,
    0.030381942707214626,
    0.02237221500240925,
    0.01735161176759788,
    0.01398082329600333,
    0.011398891187548063,
    0.010780363506155185,
    0.0037060148609693736,
    0.021708351572853737,
    -0.02100027242079359,
    0.032629339855472096,
];

/// The difference of `pi/2` and the nearest f64.
const FRAC_PI_2_LOW: f64 = 6.123233995736766e-17;

/// `tan(pi/8)`.
const TAN_PI_8: f64 = 0.41421356237309503;

/// The inverse sine, in `[-pi/2, pi/2]`.
pub(crate) fn asin<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, asin);
    }
    let parts = arc_parts(e, x);
    let above = e.fsub(e.float(x, FRAC_PI_2_LOW), e.fadd(parts.arc, parts.arc));
    let above = e.fadd(e.float(x, FRAC_PI_2), above);
    let magnitude = e.select(parts.is_large, above, parts.arc);
    let result = e.copysign(magnitude, x);
    itself_below(e, x, 2f64.powi(-27), result)
}

/// The inverse cosine, in `[0, pi]`.
pub(crate) fn acos<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, acos);
    }
    let parts = arc_parts(e, x);
    let negative = e.fcmp(FloatPredicate::OLT, x, e.float(x, 0.0));
    // Up to 1/2: pi/2 - asin x. Beyond: twice the arc, or pi less that.
    let signed = e.copysign(parts.arc, x);
    let near = e.fsub(signed, e.float(x, FRAC_PI_2_LOW));
    let near = e.fsub(e.float(x, FRAC_PI_2), near);
    let twice = e.fadd(parts.arc, parts.arc);
    let far = e.fsub(twice, e.float(x, 2.0 * FRAC_PI_2_LOW));
    let far = e.fsub(e.float(x, PI), far);
    let large = e.select(negative, far, twice);
    e.select(parts.is_large, large, near)
}

/// The inverse sine of `|x|` up to 1/2, of `sqrt((1 - |x|) / 2)` beyond; NaN beyond 1.
struct ArcParts<'ctx> {
    arc: Value<'ctx>,
    is_large: Value<'ctx>,
}

fn arc_parts<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> ArcParts<'ctx> {
    let magnitude = e.fabs(x);
    let half = e.float(x, 0.5);
    let is_large = e.fcmp(FloatPredicate::OGT, magnitude, half);
    let reflected = e.fmul(e.fsub(e.float(x, 1.0), magnitude), half);
    let z = e.select(is_large, reflected, e.fmul(x, x));
    let s = e.select(is_large, e.sqrt(z), magnitude);
    let arc = e.fma(e.fmul(s, z), polynomial(e, z, &ASIN_F64), s);
    ArcParts { arc, is_large }
}

/// The inverse tangent, in `[-pi/2, pi/2]`.
pub(crate) fn atan<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, atan);
    }
    let one = e.float(x, 1.0);
    let magnitude = e.fabs(x);
    let infinity = e.float(x, f64::INFINITY);
    let is_infinite = e.fcmp(FloatPredicate::OEQ, magnitude, infinity);
    let over = e.select(is_infinite, one, magnitude);
    let under = e.select(is_infinite, e.float(x, 0.0), one);
    e.copysign(quotient_angle(e, over, under), x)
}

/// The angle of the point (x, y), in `[-pi, pi]`; zeros and infinities as C's `atan2`.
pub(crate) fn atan2<'ctx>(e: &Emitter<'_, 'ctx>, y: Value<'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        let wide = atan2(e, e.extend_float(y), e.extend_float(x));
        return e.narrow_float(wide);
    }
    let (zero, one) = (e.float(x, 0.0), e.float(x, 1.0));
    let infinity = e.float(x, f64::INFINITY);
    let (mut over, mut under) = (e.fabs(y), e.fabs(x));
    // If an argument is infinite, the result depends only on which of the two are infinite.
    let is_infinite = |value| e.fcmp(FloatPredicate::OEQ, value, infinity);
    let (over_infinite, under_infinite) = (is_infinite(over), is_infinite(under));
    let any_infinite = e.or(over_infinite, under_infinite);
    let as_one = |mask, value| e.select(any_infinite, e.select(mask, one, zero), value);
    (over, under) = (as_one(over_infinite, over), as_one(under_infinite, under));
    // Large arguments are scaled so that their sum does not overflow.
    let largest = e.fmax_loose(over, under);
    let is_huge = e.fcmp(FloatPredicate::OGT, largest, e.float(x, 2f64.powi(1000)));
    let factor = e.select(is_huge, e.float(x, 2f64.powi(-60)), one);
    (over, under) = (e.fmul(over, factor), e.fmul(under, factor));

    let angle = quotient_angle(e, over, under);
    let reflected = e.fsub(angle, e.float(x, 2.0 * FRAC_PI_2_LOW));
    let reflected = e.fsub(e.float(x, PI), reflected);
    let bits = e.to_bits(x);
    let left = e.icmp(IntPredicate::SLT, bits, e.int(bits, 0));
    let result = e.copysign(e.select(left, reflected, angle), y);
    let unordered = e.fcmp(FloatPredicate::UNO, x, y);
    e.select(unordered, e.float(x, f64::NAN), result)
}

/// The angle whose tangent is `over / under`, both non-negative and finite, in `[0, pi/2]`; 0 if both are 0.
fn quotient_angle<'ctx>(
    e: &Emitter<'_, 'ctx>,
    over: Value<'ctx>,
    under: Value<'ctx>,
) -> Value<'ctx> {
    let zero = e.float(over, 0.0);
    // Above the diagonal, the angle is pi/2 less that of the mirrored point.
    let steep = e.fcmp(FloatPredicate::OGT, over, under);
    let short = e.select(steep, under, over);
    let long = e.select(steep, over, under);
    let long = e.select(
        e.fcmp(FloatPredicate::OEQ, long, zero),
        e.float(over, 1.0),
        long,
    );
    // Above pi/8, it is pi/4 and the angle of a quotient that is small again.
    let limit = e.fmul(long, e.float(over, TAN_PI_8));
    let is_wide = e.fcmp(FloatPredicate::OGT, short, limit);
    let numerator = e.select(is_wide, e.fsub(short, long), short);
    let denominator = e.select(is_wide, e.fadd(short, long), long);
    let t = e.fdiv(numerator, denominator);
    let z = e.fmul(t, t);
    let arc_tail = e.fmul(e.fmul(t, z), polynomial(e, z, &ATAN_F64));
    // base + t + tail, or pi/2 less that.
    let base = e.select(is_wide, e.float(over, FRAC_PI_4), zero);
    let base_low = e.select(is_wide, e.float(over, 0.5 * FRAC_PI_2_LOW), zero);
    let rest = e.fadd(arc_tail, base_low);
    let flat = e.fadd(base, e.fadd(t, rest));
    let from_top = e.fsub(e.float(over, FRAC_PI_2), base);
    let from_top_low = e.fsub(e.float(over, FRAC_PI_2_LOW), rest);
    let mirrored = e.fadd(from_top, e.fsub(from_top_low, t));
    e.select(steep, mirrored, flat)
}
