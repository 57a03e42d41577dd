//! Sine, cosine and tangent, accurate for every argument.
//!
//! The argument is reduced to `k pi/2 + r` with `|r| <= pi/4`. Up to a million, `k pi/2` is subtracted in parts all but the
//! last of which times `k` are exact (Cody and Waite); beyond, an out-of-line function multiplies by the relevant bits of
//! `2/pi` (Payne and Hanek), in integers. Polynomials are minimax (`tools/minimax.py`), in the relative error of the
//! function.

use inkwell::{FloatPredicate, IntPredicate};

use super::common::{
    Rounded, is_f32, itself_below, nan_unless_finite, polynomial, round_product, through_f64,
};
use crate::emit::{Elem, Emitter, Twofold, Value, lanes};

/// Error 2^-57.9.
const SIN_F64: [f64; 6] = [
    -0.1666666666666663,
    0.008333333333322108,
    -0.00019841269829580494,
    2.7557313618229313e-06,
    -2.505074725936879e-08,
    1.5896200216819169e-10,
];

/// Error 2^-64.0.
const COS_F64: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873047,
    2.4801587288844518e-05,
    -2.755731417685301e-07,
    2.0875700473022477e-09,
    -1.1358515947274692e-11,
];

/// Error 2^-28.0.
const SIN_F32: [f64; 3] = [
    -0.16666655242443085,
    0.00833216030150652,
    -0.00019515205349307507,
];

/// Error 2^-33.0.
const COS_F32: [f64; 3] = [
    0.04166664555668831,
    -0.0013887316454201937,
    2.443312587274704e-05,
];

/// The first argument with the exact reduction.
const LARGE: f64 = 1e6;

/// `pi/2` in parts of 33 bits, the last one of 53.
const HALF_PI: [f64; 4] = [
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.4784276603689e-32,
];

/// The sine, of radians.
pub(crate) fn sin<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let both = sin_cos(e, x);
    let value = e.select(both.swapped, both.cos, both.sin);
    let value = negate_where(e, bit(e, both.quadrant, 2), value);
    itself_below(e, x, tiny(x), nan_unless_finite(e, x, value))
}

/// The cosine, of radians.
pub(crate) fn cos<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let both = sin_cos(e, x);
    let value = e.select(both.swapped, both.sin, both.cos);
    let next = e.iadd(both.quadrant, e.int(both.quadrant, 1));
    let value = negate_where(e, bit(e, next, 2), value);
    nan_unless_finite(e, x, value)
}

/// The tangent, of radians.
pub(crate) fn tan<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, tan);
    }
    let both = sin_cos(e, x);
    let over = e.select(both.swapped, both.cos, both.sin);
    let under = e.select(both.swapped, both.sin, both.cos);
    let value = negate_where(e, both.swapped, e.fdiv(over, under));
    itself_below(e, x, tiny(x), nan_unless_finite(e, x, value))
}

/// Below this, sine and tangent equal their argument.
fn tiny(x: Value<'_>) -> f64 {
    if is_f32(x) {
        2f64.powi(-13)
    } else {
        2f64.powi(-27)
    }
}

/// Sine and cosine of the reduced argument, and its quadrant.
struct SinCos<'ctx> {
    sin: Value<'ctx>,
    cos: Value<'ctx>,
    quadrant: Value<'ctx>,
    swapped: Value<'ctx>,
}

fn sin_cos<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> SinCos<'ctx> {
    if is_f32(x) {
        let reduced = reduce(e, e.extend_float(x), Precision::Single);
        let r = e.narrow_float(reduced.r.high);
        let z = e.fmul(r, r);
        let sin = e.fma(e.fmul(r, z), polynomial(e, z, &SIN_F32), r);
        let half = e.fnma(z, e.float(z, 0.5), e.float(z, 1.0));
        let cos = e.fma(e.fmul(z, z), polynomial(e, z, &COS_F32), half);
        let quadrant = e.trunc_int(reduced.quadrant, Elem::I32);
        return SinCos {
            sin,
            cos,
            quadrant,
            swapped: bit(e, quadrant, 1),
        };
    }
    let Reduced { r, quadrant } = reduce(e, x, Precision::Double);
    let Twofold { high, low } = r;
    let z = e.fmul(high, high);
    let half = e.fmul(z, e.float(z, 0.5));
    // sin(h + l) = sin h + l cos h, and cos h = 1 - h^2/2 is enough for l.
    let tail = e.fmul(e.fmul(high, z), polynomial(e, z, &SIN_F64));
    let sin = e.fadd(high, e.fadd(tail, e.fnma(low, half, low)));
    // cos(h + l) = cos h - l h, 1 - h^2/2 with its rounding error.
    let one = e.float(z, 1.0);
    let most = e.fsub(one, half);
    let lost = e.fsub(e.fsub(one, most), half);
    let tail = e.fma(e.fmul(z, z), polynomial(e, z, &COS_F64), lost);
    let cos = e.fadd(most, e.fnma(high, low, tail));
    SinCos {
        sin,
        cos,
        quadrant,
        swapped: bit(e, quadrant, 1),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Single,
    Double,
}

/// `x = quadrant pi/2 + r`; only the low two bits of the quadrant matter.
struct Reduced<'ctx> {
    r: Twofold<'ctx>,
    quadrant: Value<'ctx>,
}

fn reduce<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>, precision: Precision) -> Reduced<'ctx> {
    let k = round_product(e, x, std::f64::consts::FRAC_2_PI);
    let r = match precision {
        Precision::Single => reduce_to_single(e, x, k),
        Precision::Double => reduce_to_double(e, x, k),
    };
    let is_large = e.fcmp(FloatPredicate::OGE, e.fabs(x), e.float(x, LARGE));
    let values = e.patch_lanes(is_large, &[r.high, r.low, k.integer], || {
        reduce_large(e, x).to_vec()
    });
    match values.as_slice() {
        &[high, low, quadrant] => Reduced {
            r: Twofold { high, low },
            quadrant,
        },
        _ => unreachable!("three values went in"),
    }
}

/// Enough for an f32: the remainder of one is at least 2^-30.
fn reduce_to_single<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    k: Rounded<'ctx>,
) -> Twofold<'ctx> {
    let r = e.fnma(k.float, e.float(x, HALF_PI[0]), x);
    let r = e.fnma(k.float, e.float(x, HALF_PI[1] + HALF_PI[2]), r);
    Twofold {
        high: r,
        low: e.float(x, 0.0),
    }
}

/// Enough for an f64: the remainder of one is at least 2^-62.
fn reduce_to_double<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
    k: Rounded<'ctx>,
) -> Twofold<'ctx> {
    let part = |index: usize| e.fneg(e.fmul(k.float, e.float(x, HALF_PI[index])));
    let first = e.fadd(x, part(0));
    let second = e.two_sum(first, part(1));
    let third = e.two_sum(second.high, part(2));
    let low = e.fadd(e.fadd(third.low, second.low), part(3));
    e.fast_two_sum(third.high, low)
}

/// The exact reduction of every lane: high part, low part, quadrant.
fn reduce_large<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> [Value<'ctx>; 3] {
    let n_lanes = lanes(x);
    // Three arrays: the argument, replaced by the high part; the low part; the quadrant.
    let arrays = e.stack(3 * 8 * n_lanes);
    e.store(arrays, x, 8);
    let function = e.module().internal(
        "reduce_large",
        &[e.ty(Elem::Pointer, 1), e.ty(Elem::I64, 1)],
        e.ty(Elem::I64, 1),
        |e, parameters| match *parameters {
            [arrays, count] => {
                reduce_array(e, arrays, count);
                e.i64(0)
            }
            _ => unreachable!("the function has two parameters"),
        },
    );
    e.call(function, &[arrays, e.i64(i64::from(n_lanes))]);
    let array = |position: u32, elem| {
        let place = e.offset(arrays, e.i64(i64::from(position * n_lanes * 8)));
        e.load(e.ty(elem, n_lanes), place, 8)
    };
    [
        array(0, Elem::F64),
        array(1, Elem::F64),
        array(2, Elem::I64),
    ]
}

fn reduce_array<'ctx>(e: &Emitter<'_, 'ctx>, arrays: Value<'ctx>, count: Value<'ctx>) {
    let size = e.i64(8);
    let stride = e.imul(count, size);
    e.for_range(e.i64(0), count, e.i64(1), None, &[], |index, _| {
        let first = e.offset(arrays, e.imul(index, size));
        let second = e.offset(first, stride);
        let third = e.offset(second, stride);
        let x = e.load(e.ty(Elem::F64, 1), first, 8);
        let Reduced { r, quadrant } = payne_hanek(e, x);
        e.store(first, r.high, 8);
        e.store(second, r.low, 8);
        e.store(third, quadrant, 8);
        Vec::new()
    });
}

/// The bits of `2/pi` after 64 zeros.
const TWO_OVER_PI: [u64; 23] = [
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
    0xa9e391615ee61b08,
    0,
];

/// For a finite scalar of at least 1; the result for others is meaningless.
///
/// `|x|` is `m 2^p` with a 53-bit `m`. Bits of `2/pi` above weight `2^(1 - p)` only contribute
/// multiples of 4 quadrants, so 192 bits from there on times `m`, modulo `2^192`, are the quadrant
/// in the top two bits and, below, its fraction to at least 60 significant bits.
fn payne_hanek<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Reduced<'ctx> {
    let bits = e.to_bits(x);
    let int = |value| e.i64(value);
    let exponent = e.and(e.lshr(bits, int(52)), int(0x7ff));
    let m = e.or(e.and(bits, int((1 << 52) - 1)), int(1 << 52));
    // p - 1 + 63: bit 64 of the table has weight 1/2, and the window starts at weight 2^(1 - p).
    let position = e.isub(exponent, int(1075 - 62));
    let position = e.smin(e.smax(position, int(0)), int(1033));

    let table = e.module().constant_words("two_over_pi", &TWO_OVER_PI);
    let place = e.offset(table, e.shl(e.lshr(position, int(6)), int(3)));
    let shift = e.and(position, int(63));
    let words: Vec<Value<'ctx>> = (0..4)
        .map(|word| e.load(e.ty(Elem::I64, 1), e.offset(place, int(8 * word)), 8))
        .collect();
    let window: Vec<Value<'ctx>> = words
        .windows(2)
        .filter_map(|pair| match *pair {
            [high, low] => Some(e.funnel_left(high, low, shift)),
            _ => None,
        })
        .collect();
    let &[w2, w1, w0] = window.as_slice() else {
        unreachable!("four words have three neighbours");
    };

    // The low 192 bits of m * window, as the top 128 and the low 64; the low 64 are not needed.
    let wide = |value| e.zext(value, Elem::I128);
    let wide_int = |value: i64| e.int_of(Elem::I128, 1, value);
    let low = e.imul(wide(m), wide(w0));
    let middle = e.imul(wide(m), wide(w1));
    let high = e.shl(wide(e.imul(m, w2)), wide_int(64));
    let carried = e.lshr(low, wide_int(64));
    let product = e.iadd(e.iadd(middle, carried), high);
    let low_word = e.trunc_int(low, Elem::I64);

    // The fraction, shifted up so that its sign is the top bit: in [-1/2, 1/2) of a quadrant.
    let top_bits = e.lshr(low_word, int(62));
    let fraction = e.or(e.shl(product, wide_int(2)), wide(top_bits));
    let whole = e.trunc_int(e.lshr(product, wide_int(126)), Elem::I64);
    let negative = e.icmp(IntPredicate::SLT, fraction, wide_int(0));
    let quadrant = e.iadd(whole, e.zext(negative, Elem::I64));
    let magnitude = e.select(negative, e.ineg(fraction), fraction);

    // Two floats of 53 bits each, starting at the first one bit.
    let zeros = e.leading_zeros(magnitude);
    let zeros = e.umin(zeros, wide_int(127));
    let normal = e.shl(magnitude, zeros);
    let mantissa = |shift: i64| {
        let bits = e.trunc_int(e.lshr(normal, wide_int(shift)), Elem::I64);
        let bits = e.and(bits, int((1 << 53) - 1));
        e.signed_to_float(bits, Elem::F64)
    };
    let power = |shift: i64| {
        let zeros = e.trunc_int(zeros, Elem::I64);
        super::common::power_of_two(e, e.isub(int(shift - 128), zeros))
    };
    let turns = Twofold {
        high: e.fmul(mantissa(75), power(75)),
        low: e.fmul(mantissa(22), power(22)),
    };
    let half_pi = e.twofold(
        turns.high,
        std::f64::consts::FRAC_PI_2,
        6.123233995736766e-17,
    );
    let r = e.twofold_product(turns, half_pi);

    let x_negative = e.icmp(IntPredicate::SLT, bits, int(0));
    let flip = e.xor(negative, x_negative);
    let flipped = e.twofold_neg(r);
    Reduced {
        r: Twofold {
            high: e.select(flip, flipped.high, r.high),
            low: e.select(flip, flipped.low, r.low),
        },
        quadrant: e.select(x_negative, e.ineg(quadrant), quadrant),
    }
}

/// Whether a bit of integer lanes is set.
fn bit<'ctx>(e: &Emitter<'_, 'ctx>, value: Value<'ctx>, bit: i64) -> Value<'ctx> {
    let masked = e.and(value, e.int(value, bit));
    e.icmp(IntPredicate::NE, masked, e.int(value, 0))
}

fn negate_where<'ctx>(e: &Emitter<'_, 'ctx>, mask: Value<'ctx>, value: Value<'ctx>) -> Value<'ctx> {
    e.select(mask, e.fneg(value), value)
}
