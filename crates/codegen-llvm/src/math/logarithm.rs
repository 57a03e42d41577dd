//! Logarithms: `log`, `log2`, `log1p`, and the one that `pow` uses.
//!
//! The argument is `2^k (1 + f)` with `1 + f` between `sqrt(1/2)` and `sqrt(2)`. In f64,
//! `log(1 + f) = 2 s + s^3 P(s^2)` with `s = f / (2 + f)`, arranged so that `f` itself is added
//! last (as in fdlibm); in f32, `f - f^2/2 + f^3 P(f)`. Polynomials are minimax
//! (`tools/minimax.py`), in the relative error of the function.

use inkwell::FloatPredicate;

use super::common::{is_f32, itself_below, polynomial, through_f64};
use crate::emit::{Elem, Emitter, Twofold, Value};

/// Error 2^-59.5.
const LOG_F64: [f64; 7] = [
    0.6666666666666734,
    0.39999999999416375,
    0.28571428742012145,
    0.2222219861136247,
    0.18183562365375863,
    0.15314100053818952,
    0.14795461357483164,
];

/// Error 2^-44.9.
const LOG_SHORT: [f64; 5] = [
    0.6666666667577107,
    0.3999999563226587,
    0.28572108043543293,
    0.2217623535689231,
    0.19583480930808406,
];

/// Error 2^-27.4.
const LOG_F32: [f64; 8] = [
    0.3333333134651184,
    -0.250008225440979,
    0.2000122368335724,
    -0.1662333458662033,
    0.14201807975769043,
    -0.13160477578639984,
    0.127614825963974,
    -0.07633642852306366,
];

/// Error 2^-66.3.
const POW_F64: [f64; 7] = [
    0.20000000000001128,
    0.14285714285050036,
    0.11111111259915614,
    0.09090892187811689,
    0.07693378456815614,
    0.06628414051761494,
    0.06598113381819141,
];

/// The natural logarithm.
pub(crate) fn log<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let parts = split(e, x);
    let result = sum(e, parts, e.float(x, 0.0));
    edges(e, x, e.float(x, 0.0), result)
}

/// The logarithm to base 2.
pub(crate) fn log2<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, log2);
    }
    let parts = split(e, x);
    let zero = e.float(x, 0.0);
    let natural = sum(e, Parts { k: zero, ..parts }, zero);
    let result = e.fma(natural, e.float(x, std::f64::consts::LOG2_E), parts.k);
    edges(e, x, zero, result)
}

/// The logarithm of `1 + x`.
pub(crate) fn log1p<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let one = e.float(x, 1.0);
    let zero = e.float(x, 0.0);
    let Twofold { high: u, low: lost } = e.two_sum(one, x);
    let parts = split(e, u);
    // If 1 + x needs no scaling, x itself is used; otherwise the rounding error of the sum is added, relative to the
    // sum.
    let is_near_one = e.fcmp(FloatPredicate::OEQ, parts.k, zero);
    let lost = e.select(is_near_one, zero, e.fdiv(lost, u));
    let parts = Parts {
        k: parts.k,
        f: e.select(is_near_one, x, parts.f),
    };
    let result = sum(e, parts, lost);
    let tiny = if is_f32(x) { -25 } else { -54 };
    let result = itself_below(e, x, 2f64.powi(tiny), result);
    edges(e, x, e.float(x, -1.0), result)
}

/// `log2(x)` of positive, finite f64 to about 45 bits.
pub(super) fn log2_short<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let parts = split(e, x);
    let f = parts.f;
    let s = e.fdiv(f, e.fadd(e.float(f, 2.0), f));
    let z = e.fmul(s, s);
    let tail = e.fmul(z, polynomial(e, z, &LOG_SHORT));
    let natural = e.fma(s, tail, e.fadd(s, s));
    e.fma(natural, e.float(x, std::f64::consts::LOG2_E), parts.k)
}

/// `log2(x)` of positive, finite f64 to about 65 bits.
///
/// `log(1 + f) = 2 s (1 + s^2/3 + s^4 P(s^2))`, all terms except the last in two parts.
pub(super) fn log2_twofold<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Twofold<'ctx> {
    let parts = split(e, x);
    let f = parts.f;
    let zero = e.float(f, 0.0);
    let one = e.float(f, 1.0);
    let numerator = Twofold { high: f, low: zero };
    let denominator = e.fast_two_sum(e.float(f, 2.0), f);
    let s = e.two_quotient(numerator, denominator);
    let z = e.twofold_product(s, s);
    let third = e.twofold(f, 1.0 / 3.0, 1.850371707708594e-17);
    let tail = e.fmul(e.fmul(z.high, z.high), polynomial(e, z.high, &POW_F64));
    let series = e.twofold_add(e.twofold_product(z, third), tail);
    let series = e.twofold_sum(
        Twofold {
            high: one,
            low: zero,
        },
        series,
    );
    let inverse = e.twofold(
        f,
        2.0 * std::f64::consts::LOG2_E,
        2.0 * 2.0355273740931033e-17,
    );
    let scaled = e.twofold_product(s, inverse);
    e.twofold_add(e.twofold_product(scaled, series), parts.k)
}

/// `x = 2^k (1 + f)`.
#[derive(Clone, Copy)]
struct Parts<'ctx> {
    k: Value<'ctx>,
    f: Value<'ctx>,
}

/// Splits positive, finite numbers; the result for others is meaningless.
fn split<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Parts<'ctx> {
    let single = is_f32(x);
    let (fraction_bits, bias, least_normal, lift) = if single {
        (23, 127, f64::from(f32::MIN_POSITIVE), 25)
    } else {
        (52, 1023, f64::MIN_POSITIVE, 54)
    };
    // Subnormals are scaled to normal numbers first.
    let is_small = e.fcmp(FloatPredicate::OLT, x, e.float(x, least_normal));
    let lifted = e.fmul(x, e.float(x, 2f64.powi(lift)));
    let x = e.select(is_small, lifted, x);
    let lowered = e.select(is_small, e.float(x, f64::from(-lift)), e.float(x, 0.0));

    // The exponent increments at sqrt(2) rather than at 2.
    let root = e.to_bits(e.float(x, std::f64::consts::FRAC_1_SQRT_2));
    let one = e.to_bits(e.float(x, 1.0));
    let moved = e.iadd(e.to_bits(x), e.isub(one, root));
    let exponent = e.lshr(moved, e.int(moved, fraction_bits));
    let fraction = e.and(moved, e.int(moved, (1 << fraction_bits) - 1));
    let f = e.fsub(e.bits_to_float(e.iadd(fraction, root)), e.float(x, 1.0));
    let k = if single {
        let k = e.isub(exponent, e.int(exponent, bias));
        e.signed_to_float(k, Elem::F32)
    } else {
        // Small integers become f64 in the low bits of 2^52.
        let magic = e.float(x, 2f64.powi(52));
        let k = e.bits_to_float(e.or(exponent, e.to_bits(magic)));
        e.fsub(k, e.float(x, 2f64.powi(52) + bias as f64))
    };
    Parts {
        k: e.fadd(k, lowered),
        f,
    }
}

/// `k ln 2 + log(1 + f) + more`, the parts added from the smallest.
fn sum<'ctx>(e: &Emitter<'_, 'ctx>, parts: Parts<'ctx>, more: Value<'ctx>) -> Value<'ctx> {
    let Parts { k, f } = parts;
    let half_square = e.fmul(e.fmul(f, e.float(f, 0.5)), f);
    if is_f32(f) {
        let cube = e.fmul(e.fmul(f, f), f);
        let small = e.fma(k, e.float(k, -2.121_944_400_546_905_8e-4), more);
        let tail = e.fma(cube, polynomial(e, f, &LOG_F32), small);
        let near = e.fsub(f, e.fsub(half_square, tail));
        return e.fma(k, e.float(k, 0.693359375), near);
    }
    let s = e.fdiv(f, e.fadd(e.float(f, 2.0), f));
    let z = e.fmul(s, s);
    let tail = e.fmul(z, polynomial(e, z, &LOG_F64));
    let small = e.fma(k, e.float(k, 1.9082149292705877e-10), more);
    let tail = e.fma(s, e.fadd(half_square, tail), small);
    let near = e.fsub(f, e.fsub(half_square, tail));
    e.fma(k, e.float(k, 0.6931471803691238), near)
}

/// Minus infinity at `pole`, NaN below it; infinity and NaN are kept.
fn edges<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    pole: Value<'ctx>,
    result: Value<'ctx>,
) -> Value<'ctx> {
    let ordinary = e.and(
        e.fcmp(FloatPredicate::OGT, x, pole),
        e.fcmp(FloatPredicate::OLT, x, e.float(x, f64::INFINITY)),
    );
    let at_pole = e.fcmp(FloatPredicate::OEQ, x, pole);
    let below = e.fcmp(FloatPredicate::OLT, x, pole);
    let outside = e.select(below, e.float(x, f64::NAN), x);
    let edge = e.select(at_pole, e.float(x, f64::NEG_INFINITY), outside);
    e.select(ordinary, result, edge)
}

/// Whether f64 lanes are integers, and odd: `(integral, odd)`.
pub(super) fn parity<'ctx>(e: &Emitter<'_, 'ctx>, y: Value<'ctx>) -> (Value<'ctx>, Value<'ctx>) {
    let integral = e.fcmp(FloatPredicate::OEQ, e.trunc_float(y), y);
    // From 2^53 on, all are even.
    let half = e.fmul(y, e.float(y, 0.5));
    let halves = e.fcmp(FloatPredicate::UNE, e.trunc_float(half), half);
    (integral, e.and(integral, halves))
}
