//! Integer operations, and comparisons of integers and `bool`: two's complement, wrapping, never trapping.

use inkwell::IntPredicate;
use kiln_kernel::seeded::{Fault, is_on};

use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::Outcome;
use crate::emit::{Elem, Emitter, Value, elem, lanes};

/// Emits an operation of integers or a comparison of `bool`s; `None` for any other operation.
pub(super) fn emit<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    dtype: DType,
    operands: &[Value<'ctx>],
) -> Option<Outcome<'ctx>> {
    let signed = dtype.is_signed();
    let outcome = match (op, operands) {
        (ScalarOp::Neg, &[a]) => e.ineg(a).into(),
        (ScalarOp::Abs, &[a]) if signed => e.smax(a, e.ineg(a)).into(),
        (ScalarOp::Abs, &[a]) => a.into(),
        (ScalarOp::Sign, &[a]) => sign(e, signed, a).into(),
        (ScalarOp::BitNot, &[a]) => e.not(a).into(),
        (_, &[a, b]) => return binary(e, op, signed, a, b),
        _ => return None,
    };
    Some(outcome)
}

fn binary<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Option<Outcome<'ctx>> {
    let outcome = match op {
        ScalarOp::Add => e.iadd(a, b).into(),
        ScalarOp::Sub => e.isub(a, b).into(),
        ScalarOp::Mul => e.imul(a, b).into(),
        ScalarOp::Div => divide(e, signed, a, b).quotient(),
        ScalarOp::FloorDiv => floor_div(e, signed, a, b),
        ScalarOp::Rem => divide(e, signed, a, b).remainder(e),
        ScalarOp::FloorMod => floor_mod(e, signed, a, b),
        ScalarOp::Pow => power(e, signed, a, b),
        ScalarOp::Min if signed => e.smin(a, b).into(),
        ScalarOp::Min => e.umin(a, b).into(),
        ScalarOp::Max if signed => e.smax(a, b).into(),
        ScalarOp::Max => e.umax(a, b).into(),
        ScalarOp::BitAnd => e.and(a, b).into(),
        ScalarOp::BitOr => e.or(a, b).into(),
        ScalarOp::BitXor => e.xor(a, b).into(),
        ScalarOp::Shl => shift_left(e, a, b).into(),
        ScalarOp::Shr => shift_right(e, signed, a, b).into(),
        _ => return compare(e, op, signed, a, b).map(Outcome::from),
    };
    Some(outcome)
}

fn compare<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Option<Value<'ctx>> {
    let signed = signed || is_on(Fault::SignedCompare);
    let predicate = match (op, signed) {
        (ScalarOp::Eq, _) => IntPredicate::EQ,
        (ScalarOp::Ne, _) => IntPredicate::NE,
        (ScalarOp::Lt, true) => IntPredicate::SLT,
        (ScalarOp::Lt, false) => IntPredicate::ULT,
        (ScalarOp::Le, true) => IntPredicate::SLE,
        (ScalarOp::Le, false) => IntPredicate::ULE,
        (ScalarOp::Gt, true) => IntPredicate::SGT,
        (ScalarOp::Gt, false) => IntPredicate::UGT,
        (ScalarOp::Ge, true) => IntPredicate::SGE,
        (ScalarOp::Ge, false) => IntPredicate::UGE,
        _ => return None,
    };
    Some(e.icmp(predicate, a, b))
}

fn sign<'ctx>(e: &Emitter<'_, 'ctx>, signed: bool, a: Value<'ctx>) -> Value<'ctx> {
    let one = e.int(a, 1);
    if signed {
        e.smax(e.smin(a, one), e.int(a, -1))
    } else {
        e.umin(a, one)
    }
}

/// A division that cannot trap: it divides by 1 if the divisor is 0, and for `MIN / -1`.
#[derive(Clone, Copy)]
struct Division<'ctx> {
    a: Value<'ctx>,
    divisor: Value<'ctx>,
    quotient: Value<'ctx>,
    by_zero: Value<'ctx>,
}

impl<'ctx> Division<'ctx> {
    fn quotient(self) -> Outcome<'ctx> {
        Outcome {
            value: self.quotient,
            fault: Some(self.by_zero),
        }
    }

    fn remainder(self, e: &Emitter<'_, 'ctx>) -> Outcome<'ctx> {
        Outcome {
            value: e.isub(self.a, e.imul(self.quotient, self.divisor)),
            fault: Some(self.by_zero),
        }
    }
}

fn divide<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Division<'ctx> {
    let by_zero = e.icmp(IntPredicate::EQ, b, e.int(b, 0));
    let mut unsafe_lanes = by_zero;
    if signed {
        let least = e.int(a, -1 << (elem(a).bits() - 1));
        let overflows = e.and(
            e.icmp(IntPredicate::EQ, a, least),
            e.icmp(IntPredicate::EQ, b, e.int(b, -1)),
        );
        unsafe_lanes = e.or(by_zero, overflows);
    }
    // MIN / 1 is MIN with remainder 0, the results required of MIN / -1.
    let divisor = e.select(unsafe_lanes, e.int(b, 1), b);
    Division {
        a,
        divisor,
        quotient: quotient(e, signed, a, divisor),
        by_zero,
    }
}

/// Truncated quotients whose divisors are neither 0 nor, below `MIN`, -1.
///
/// No level divides vectors of integers, but all divide vectors of floats. The truncated quotient of floats equals that
/// of the integers if the dividend is below 2^p in magnitude, where p is the number of the float's significant bits: a
/// quotient that is at least 1 / divisor below an integer is not rounded up to it.
fn quotient<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    divisor: Value<'ctx>,
) -> Value<'ctx> {
    let of_integers = || match signed {
        true => e.sdiv(a, divisor),
        false => e.udiv(a, divisor),
    };
    // LLVM multiplies by the inverse of a constant.
    if lanes(a) == 1 || divisor.into_vector_value().is_const() {
        return of_integers();
    }
    let of_floats = |float, signed| {
        let float_of = |x| match signed {
            true => e.signed_to_float(x, float),
            false => e.unsigned_to_float(x, float),
        };
        e.float_to_integer(e.fdiv(float_of(a), float_of(divisor)), elem(a), signed)
    };
    match elem(a).bits() {
        8 | 16 => of_floats(Elem::F32, signed),
        32 => of_floats(Elem::F64, signed),
        64 if e.level().has_avx512() => {
            let magnitude = |x| if signed { e.smax(x, e.ineg(x)) } else { x };
            let either = e.or(magnitude(a), magnitude(divisor));
            let is_large = e.icmp(
                IntPredicate::UGE,
                either,
                e.int(a, 1 << f64::MANTISSA_DIGITS),
            );
            let exact = of_floats(Elem::F64, true);
            match *e.patch_lanes(is_large, &[exact], || vec![of_integers()]) {
                [patched] => patched,
                _ => unreachable!("one value is patched"),
            }
        }
        // Below AVX-512 these are not converted in vectors either.
        _ => of_integers(),
    }
}

fn floor_div<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Outcome<'ctx> {
    let division = divide(e, signed, a, b);
    if !signed {
        return division.quotient();
    }
    let rest = division.remainder(e).value;
    let step = e.sext(needs_step(e, rest, division.divisor), elem(a));
    Outcome {
        value: e.iadd(division.quotient, step),
        fault: Some(division.by_zero),
    }
}

fn floor_mod<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Outcome<'ctx> {
    let division = divide(e, signed, a, b);
    let truncated = division.remainder(e);
    if !signed {
        return truncated;
    }
    let rest = truncated.value;
    let stepped = e.iadd(rest, division.divisor);
    Outcome {
        value: e.select(needs_step(e, rest, division.divisor), stepped, rest),
        fault: truncated.fault,
    }
}

/// Where flooring differs from truncating: a non-zero remainder whose sign differs from the divisor's.
fn needs_step<'ctx>(e: &Emitter<'_, 'ctx>, rest: Value<'ctx>, divisor: Value<'ctx>) -> Value<'ctx> {
    let zero = e.int(rest, 0);
    let differs = e.icmp(IntPredicate::SLT, e.xor(rest, divisor), zero);
    if is_on(Fault::TruncatedQuotient) {
        return e.bool_of(lanes(rest), false);
    }
    e.and(differs, e.icmp(IntPredicate::NE, rest, zero))
}

/// By squaring, with as many iterations as the widest exponent has bits.
fn power<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Outcome<'ctx> {
    let (zero, one) = (e.int(a, 0), e.int(a, 1));
    let exponent = if signed { e.smax(b, zero) } else { b };
    let results = e.while_loop(
        &[one, a, exponent],
        |state| match state {
            [_, _, left] => e.any(e.icmp(IntPredicate::NE, *left, zero)),
            _ => unreachable!("three values are carried"),
        },
        |state| match state {
            &[power, square, left] => {
                let is_odd = e.icmp(IntPredicate::NE, e.and(left, one), zero);
                vec![
                    e.select(is_odd, e.imul(power, square), power),
                    e.imul(square, square),
                    e.lshr(left, one),
                ]
            }
            _ => unreachable!("three values are carried"),
        },
    );
    let value = results.first().copied().unwrap_or(one);
    if !signed {
        return value.into();
    }
    let negative = e.icmp(IntPredicate::SLT, b, zero);
    let is_odd = e.icmp(IntPredicate::NE, e.and(b, one), zero);
    let minus_one = e.int(a, -1);
    let of_minus_one = e.select(is_odd, minus_one, one);
    let mut inverse = e.select(e.icmp(IntPredicate::EQ, a, one), one, zero);
    inverse = e.select(
        e.icmp(IntPredicate::EQ, a, minus_one),
        of_minus_one,
        inverse,
    );
    Outcome {
        value: e.select(negative, inverse, value),
        fault: Some(e.and(negative, e.icmp(IntPredicate::EQ, a, zero))),
    }
}

fn shift_left<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
    let shifted = e.shl(a, in_range(e, a, b));
    e.select(shift_fits(e, a, b), shifted, e.int(a, 0))
}

fn shift_right<'ctx>(
    e: &Emitter<'_, 'ctx>,
    signed: bool,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Value<'ctx> {
    if signed {
        return e.ashr(a, in_range(e, a, b));
    }
    let shifted = e.lshr(a, in_range(e, a, b));
    e.select(shift_fits(e, a, b), shifted, e.int(a, 0))
}

/// The shift amount, at most the width minus one; a negative amount counts as large.
fn in_range<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
    e.umin(b, e.int(b, i64::from(elem(a).bits()) - 1))
}

fn shift_fits<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
    e.icmp(IntPredicate::ULT, b, e.int(b, i64::from(elem(a).bits())))
}
