//! Exponentials: `exp`, `exp2`, `expm1` and the logistic function.
//!
//! The argument is reduced to `n ln 2 + r` with `|r| <= ln 2 / 2` (Cody and Waite: `ln 2` is subtracted in two parts, the
//! first of which times `n` is exact), and `e^r = 1 + r + r^2 Q(r)`. Polynomials are minimax (`tools/minimax.py`), in the
//! relative error of the function.

use inkwell::FloatPredicate;

use super::common::{
    Rounded, clamp, is_f32, itself_below, polynomial, polynomial_in_pairs, power_factors,
    power_factors_down, power_of_two, round, round_product, scale, through_f64,
};
use crate::emit::{Emitter, Value};

/// Error 2^-57.9.
const EXP_F64: [f64; 10] = [
    0.5000000000000011,
    0.16666666666666416,
    0.04166666666652947,
    0.008333333333492048,
    0.001388888894383233,
    0.00019841269513165558,
    2.4801492871184622e-05,
    2.7557579261140958e-06,
    2.763033545421483e-07,
    2.500270310267191e-08,
];

/// Error 2^-28.3.
const EXP_F32: [f64; 5] = [
    0.4999999403953552,
    0.1666651964187622,
    0.041668374091386795,
    0.008368756622076035,
    0.001381606562063098,
];

/// Error 2^-32.0.
const EXPM1_F32: [f64; 6] = [
    0.5,
    0.1666666567325592,
    0.04166635870933533,
    0.008333386853337288,
    0.0013940684730187058,
    0.0001984789123525843,
];

/// Error 2^-57.9.
const EXP2_F64: [f64; 10] = [
    0.24022650695910122,
    0.05550410866482074,
    0.009618129107596868,
    0.0013333558146684382,
    0.00015403530454231794,
    1.5252733549321921e-05,
    1.3215436518398999e-06,
    1.0178183316130774e-07,
    7.0735961646885775e-09,
    4.436551015758118e-10,
];

/// Error 2^-28.3.
const EXP2_SHORT: [f64; 5] = [
    0.24022647550518023,
    0.055503621602944184,
    0.009618524758646455,
    0.0013390215068911407,
    0.0001532200087438304,
];

/// `e^x`.
pub(crate) fn exp<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    mantissa(e, within_limits(e, x)).scaled(e, power_factors)
}

/// `e^x` for `x <= 0`, or NaN: the same bits with fewer instructions.
pub(crate) fn exp_of_non_positive<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let x = e.fmax_loose(e.float(x, lowest(x)), x);
    mantissa(e, x).scaled(e, power_factors_down)
}

/// `e^x` as a power of two and a factor between 0.7 and 1.5; beyond the range of floats, the same as at the limit.
pub(super) fn exp_parts<'ctx>(
    e: &Emitter<'_, 'ctx>,
    x: Value<'ctx>,
) -> (Rounded<'ctx>, Value<'ctx>) {
    let mantissa = mantissa(e, within_limits(e, x));
    (mantissa.n, mantissa.value(e))
}

/// `e^x = 2^n (1 + r slope)`.
struct Mantissa<'ctx> {
    n: Rounded<'ctx>,
    r: Value<'ctx>,
    slope: Value<'ctx>,
}

impl<'ctx> Mantissa<'ctx> {
    fn value(&self, e: &Emitter<'_, 'ctx>) -> Value<'ctx> {
        e.fma(self.slope, self.r, e.float(self.r, 1.0))
    }

    /// `e^x`, rounded again where it is subnormal; `factors` returns `2^n` as two.
    fn scaled(
        &self,
        e: &Emitter<'_, 'ctx>,
        factors: impl FnOnce(&Emitter<'_, 'ctx>, Rounded<'ctx>) -> (Value<'ctx>, Value<'ctx>),
    ) -> Value<'ctx> {
        if e.scales_by_powers(self.r) {
            return scale(e, self.value(e), self.n);
        }
        // The product does not depend on the slope.
        let (first, second) = factors(e, self.n);
        e.fmul(e.fma(self.slope, e.fmul(self.r, first), first), second)
    }
}

/// The float below which `e^x` is 0.
fn lowest(x: Value<'_>) -> f64 {
    if is_f32(x) { -104.0 } else { -746.0 }
}

/// `x` clamped to limits beyond which `e^x` is 0 or infinite.
fn within_limits<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let highest = if is_f32(x) { 89.0 } else { 711.0 };
    clamp(e, x, lowest(x), highest)
}

/// For `x` within limits.
fn mantissa<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Mantissa<'ctx> {
    let Reduced { n, r, low } = reduce(e, x);
    let r = e.fnma(n.float, low, r);
    let q = if is_f32(x) {
        polynomial(e, r, &EXP_F32)
    } else {
        polynomial_in_pairs(e, r, &EXP_F64)
    };
    let slope = e.fma(q, r, e.float(x, 1.0));
    Mantissa { n, r, slope }
}

/// `2^x`.
pub(crate) fn exp2<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    if is_f32(x) {
        return through_f64(e, x, |e, x| {
            let x = clamp(e, x, -200.0, 200.0);
            exp2_of(e, x, e.float(x, 0.0), &EXP2_SHORT)
        });
    }
    let x = clamp(e, x, -1100.0, 1100.0);
    exp2_of(e, x, e.float(x, 0.0), &EXP2_F64)
}

/// `2^(high + low)` for f64 between -1100 and 1100 and a small low part.
pub(super) fn exp2_twofold<'ctx>(
    e: &Emitter<'_, 'ctx>,
    high: Value<'ctx>,
    low: Value<'ctx>,
) -> Value<'ctx> {
    exp2_of(e, high, low, &EXP2_F64)
}

/// `2^x` for f64 between -1100 and 1100, to about 28 bits.
pub(super) fn exp2_short<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    exp2_of(e, x, e.float(x, 0.0), &EXP2_SHORT)
}

fn exp2_of<'ctx>(
    e: &Emitter<'_, 'ctx>,
    high: Value<'ctx>,
    low: Value<'ctx>,
    coefficients: &[f64],
) -> Value<'ctx> {
    const LN_2_LOW: f64 = 2.3190468138462996e-17;
    let n = round(e, high);
    let r = e.fadd(e.fsub(high, n.float), low);
    // 1 + r ln 2 + r^2 Q(r), with the error of the f64 nearest to ln 2.
    let tail = e.fma(
        e.fmul(r, r),
        polynomial(e, r, coefficients),
        e.fmul(r, e.float(r, LN_2_LOW)),
    );
    let power = e.fma(r, e.float(r, std::f64::consts::LN_2), tail);
    scale(e, e.fadd(power, e.float(r, 1.0)), n)
}

/// `e^x - 1`.
pub(crate) fn expm1<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let (low, high, tiny) = if is_f32(x) {
        (-20.0, 89.0, 2f64.powi(-25))
    } else {
        (-42.0, 710.0, 2f64.powi(-54))
    };
    let reduced = reduce(e, clamp(e, x, low, high));
    let rest = e.fneg(e.fmul(reduced.n.float, reduced.low));
    let r = e.fadd(reduced.r, rest);
    let q = if is_f32(x) {
        polynomial(e, r, &EXPM1_F32)
    } else {
        polynomial(e, r, &EXP_F64)
    };
    // The rounding error of `r`.
    let lost = e.fadd(e.fsub(reduced.r, r), rest);
    let power = e.fadd(r, e.fma(e.fmul(r, r), q, lost));
    // 2^n power + (2^n - 1), halved so that 2^n does not overflow.
    let n = reduced.n.integer;
    let half = power_of_two(e, e.isub(n, e.int(n, 1)));
    let sum = e.fma(half, power, e.fsub(half, e.float(x, 0.5)));
    itself_below(e, x, tiny, e.fadd(sum, sum))
}

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    // The exponential's argument is never positive, so it cannot overflow.
    let small = exp_of_non_positive(e, e.fneg(e.fabs(x)));
    let one = e.float(x, 1.0);
    let negative = e.fcmp(FloatPredicate::OLT, x, e.float(x, 0.0));
    e.fdiv(e.select(negative, small, one), e.fadd(one, small))
}

/// `x = n ln 2 + r - n low`, with the second part of `ln 2`.
struct Reduced<'ctx> {
    n: Rounded<'ctx>,
    r: Value<'ctx>,
    low: Value<'ctx>,
}

fn reduce<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Reduced<'ctx> {
    // The first part of ln 2 ends in as many zeros as `n` has bits.
    let (high, low) = if is_f32(x) {
        (0.693359375, -2.121_944_400_546_905_8e-4)
    } else {
        (0.6931471803691238, 1.9082149292705877e-10)
    };
    let n = round_product(e, x, std::f64::consts::LOG2_E);
    let r = e.fnma(n.float, e.float(x, high), x);
    Reduced {
        n,
        r,
        low: e.float(x, low),
    }
}
