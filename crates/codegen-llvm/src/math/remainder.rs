//! The exact remainder of a division of floats.
//!
//! The magnitude of the dividend is split into an integer and a power of two and reduced by a few bits of the power at a
//! time, in integers; every step is exact. The loop runs until all lanes are done: once for operands of similar size.

use inkwell::{FloatPredicate, IntPredicate};

use crate::emit::{Elem, Emitter, Value, elem, lanes};

/// `a - trunc(a / b) * b`, with the sign of `a` (C's `fmod`).
pub(crate) fn remainder<'ctx>(
    e: &Emitter<'_, 'ctx>,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Value<'ctx> {
    let (x, y) = (e.fabs(a), e.fabs(b));
    let below = e.fcmp(FloatPredicate::OLT, x, y);
    let rest = e.branch(e.any(e.not(below)), || vec![magnitude(e, x, y)], || vec![x]);
    let rest = rest.first().copied().unwrap_or(x);
    let rest = e.copysign(e.select(below, x, rest), a);
    // There is no value for an infinite or NaN dividend, or a zero or NaN divisor. `x - x` is 0 or NaN, `y / y` 1 or
    // NaN.
    let zero = e.float(a, 0.0);
    let infinite = e.float(a, f64::INFINITY);
    let defined = e.and(
        e.fcmp(FloatPredicate::OLT, x, infinite),
        e.fcmp(FloatPredicate::OGT, y, zero),
    );
    e.select(defined, rest, e.float(a, f64::NAN))
}

/// The remainder with the sign of `b` (Python's `%`); a zero has the sign of `b` too.
pub(crate) fn floor_remainder<'ctx>(
    e: &Emitter<'_, 'ctx>,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Value<'ctx> {
    let rest = remainder(e, a, b);
    let zero = e.float(a, 0.0);
    let is_zero = e.fcmp(FloatPredicate::OEQ, rest, zero);
    let signs = e.xor(e.to_bits(rest), e.to_bits(b));
    let differ = e.icmp(IntPredicate::SLT, signs, e.int(signs, 0));
    let stepped = e.select(differ, e.fadd(rest, b), rest);
    // NaN is kept: its sign may differ, and then the sum is NaN too.
    e.select(is_zero, e.copysign(zero, b), stepped)
}

/// For positive `x >= y`; other lanes are arbitrary.
fn magnitude<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>, y: Value<'ctx>) -> Value<'ctx> {
    let format = Format::of(elem(x));
    let (x_fraction, x_exponent) = format.take_apart(e, x);
    let (y_fraction, y_exponent) = format.take_apart(e, y);
    let zero = e.int(x_fraction, 0);
    // A divisor of 0 must not trap; its lanes have no value anyway.
    let y_fraction = e.umax(y_fraction, e.int(zero, 1));
    let distance = e.smax(e.isub(x_exponent, y_exponent), zero);
    let first = e.urem(x_fraction, y_fraction);
    let step = e.int(zero, 63 - format.fraction_bits);
    let reduced = e.while_loop(
        &[first, distance],
        |state| match state {
            [_, left] => e.any(e.icmp(IntPredicate::NE, *left, zero)),
            _ => unreachable!("two values are carried"),
        },
        |state| match state {
            &[rest, left] => {
                let now = e.umin(left, step);
                let rest = e.urem(e.shl(rest, now), y_fraction);
                vec![rest, e.isub(left, now)]
            }
            _ => unreachable!("two values are carried"),
        },
    );
    let rest = reduced.first().copied().unwrap_or(first);
    // The rest is below the divisor's fraction, so it is exact as a float, and so is its scaled value: multiplying by a
    // power of two, in two steps for the smallest, is exact.
    let rest = e.signed_to_float(rest, elem(x));
    let exponent = e.isub(y_exponent, e.int(zero, format.bias + format.fraction_bits));
    let one = e.int(zero, 1);
    let half = e.ashr(exponent, one);
    let rest = e.fmul(rest, format.power_of_two(e, half));
    e.fmul(rest, format.power_of_two(e, e.isub(exponent, half)))
}

/// The layout of a float; the numbers are for 64-bit integers.
struct Format {
    elem: Elem,
    fraction_bits: i64,
    bias: i64,
}

impl Format {
    fn of(elem: Elem) -> Format {
        match elem {
            Elem::F32 => Format {
                elem,
                fraction_bits: 23,
                bias: 127,
            },
            _ => Format {
                elem,
                fraction_bits: 52,
                bias: 1023,
            },
        }
    }

    /// A positive float as `fraction * 2^(exponent - bias - fraction_bits)`, in i64.
    fn take_apart<'ctx>(
        &self,
        e: &Emitter<'_, 'ctx>,
        x: Value<'ctx>,
    ) -> (Value<'ctx>, Value<'ctx>) {
        let bits = e.zext(e.to_bits(x), Elem::I64);
        let exponent = e.lshr(bits, e.int(bits, self.fraction_bits));
        let fraction = e.and(bits, e.int(bits, (1 << self.fraction_bits) - 1));
        let is_normal = e.icmp(IntPredicate::NE, exponent, e.int(bits, 0));
        let implied = e.or(fraction, e.int(bits, 1 << self.fraction_bits));
        (
            e.select(is_normal, implied, fraction),
            e.umax(exponent, e.int(bits, 1)),
        )
    }

    /// `2^n` for an i64 `n` in the range of normal exponents.
    fn power_of_two<'ctx>(&self, e: &Emitter<'_, 'ctx>, n: Value<'ctx>) -> Value<'ctx> {
        let biased = e.iadd(n, e.int(n, self.bias));
        let bits = e.shl(biased, e.int(n, self.fraction_bits));
        debug_assert_eq!(lanes(n), lanes(bits));
        e.bits_to_float(e.trunc_int(bits, Elem::integer(self.elem.bits())))
    }
}
