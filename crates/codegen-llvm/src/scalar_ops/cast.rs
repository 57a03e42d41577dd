//! Conversions between all dtypes.

use inkwell::{FloatPredicate, IntPredicate};

use kiln_tensor::DType;

use super::half;
use crate::emit::{Elem, Emitter, Value, elem, lanes};

/// Converts every lane: floats to integers truncate and saturate with NaN as 0, integers keep their low bits, floats round
/// once to nearest even, `bool` is whether the value is not zero.
pub(super) fn emit<'ctx>(
    e: &Emitter<'_, 'ctx>,
    a: Value<'ctx>,
    from: DType,
    to: DType,
) -> Value<'ctx> {
    match (from, to) {
        _ if from == to => a,
        (DType::F16 | DType::BF16, DType::Bool) => {
            let magnitude = e.and(a, e.int(a, 0x7fff));
            e.icmp(IntPredicate::NE, magnitude, e.int(a, 0))
        }
        (DType::F16 | DType::BF16, _) => emit(e, half::widen(e, from, a), DType::F32, to),
        (DType::F64, DType::F16 | DType::BF16) => half::narrow_f64(e, to, a),
        (DType::F32, DType::F16 | DType::BF16) => half::narrow(e, to, a),
        (DType::F64, DType::F32) => e.narrow_float(a),
        (DType::F32, DType::F64) => e.extend_float(a),
        (DType::F32 | DType::F64, DType::Bool) => e.fcmp(FloatPredicate::UNE, a, e.float(a, 0.0)),
        (DType::F32 | DType::F64, _) => saturate(e, a, to),
        (DType::Bool, to) if to.is_integer() => e.zext(a, Elem::of(to)),
        (DType::Bool, to) => {
            let one = emit_constant_one(e, to, lanes(a));
            let zero = e.bitcast(
                e.int_of(Elem::integer(to.bits()), lanes(a), 0),
                Elem::of(to),
            );
            e.select(a, one, zero)
        }
        (_, DType::Bool) => e.icmp(IntPredicate::NE, a, e.int(a, 0)),
        (_, to) if to.is_integer() => resize(e, a, from.is_signed(), Elem::of(to)),
        (_, DType::F32 | DType::F64) => to_float(e, a, from, Elem::of(to)),
        // Integers that f32 cannot represent exactly are infinite in f16.
        (_, DType::F16) => half::narrow(e, to, to_float(e, a, from, Elem::F32)),
        (_, _) if from.bits() <= 16 => half::narrow(e, to, to_float(e, a, from, Elem::F32)),
        (_, _) if from.bits() <= 32 => half::narrow_f64(e, to, to_float(e, a, from, Elem::F64)),
        (_, _) => half::narrow_f64(e, to, to_float(e, to_odd(e, a, from), from, Elem::F64)),
    }
}

fn emit_constant_one<'ctx>(e: &Emitter<'_, 'ctx>, to: DType, n_lanes: u32) -> Value<'ctx> {
    match to {
        DType::F16 => e.int_of(Elem::I16, n_lanes, 0x3c00),
        DType::BF16 => e.int_of(Elem::I16, n_lanes, 0x3f80),
        _ => e.float_of(Elem::of(to), n_lanes, 1.0),
    }
}

/// To an integer of a different width: low bits kept, or extended by the source's sign.
pub(crate) fn resize<'ctx>(
    e: &Emitter<'_, 'ctx>,
    a: Value<'ctx>,
    signed: bool,
    to: Elem,
) -> Value<'ctx> {
    if elem(a).bits() > to.bits() {
        e.trunc_int(a, to)
    } else if signed {
        e.sext(a, to)
    } else {
        e.zext(a, to)
    }
}

fn to_float<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, from: DType, to: Elem) -> Value<'ctx> {
    if from.is_signed() {
        e.signed_to_float(a, to)
    } else {
        e.unsigned_to_float(a, to)
    }
}

/// LLVM's saturating intrinsics are scalar code on x86 for many widths; this emits the conversion instruction, and
/// keeps its operand in range.
fn saturate<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, to: DType) -> Value<'ctx> {
    let (signed, bits) = (to.is_signed(), to.bits() as i32);
    let fraction_bits = if elem(a) == Elem::F32 { 24 } else { 53 };
    let (least, beyond) = match signed {
        true => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
        false => (0.0, 2f64.powi(bits)),
    };
    // Narrow integers are converted by way of 32 bits.
    let wide = Elem::integer(to.bits().max(32));
    // A NaN becomes the lower bound.
    let above = e.fmax_loose(a, e.float(a, least));
    let mut value;
    if bits <= fraction_bits {
        let within = e.fmin_loose(above, e.float(a, beyond - 1.0));
        value = e.float_to_integer(within, wide, signed || bits < 32);
    } else {
        // The greatest integer is not a float: values beyond it are replaced after the conversion, which is undefined
        // for them.
        let greatest = match signed {
            true => i64::MAX >> (64 - bits),
            false => -1,
        };
        value = e.float_to_integer(above, wide, signed);
        let is_beyond = e.fcmp(FloatPredicate::OGE, above, e.float(a, beyond));
        value = e.select(is_beyond, e.int(value, greatest), value);
    }
    if signed {
        value = e.select(e.is_nan(a), e.int(value, 0), value);
    }
    e.trunc_int(value, Elem::of(to))
}

/// The integer of at most 16 bits that an f32 or f64 in its range truncates to.
pub(crate) fn to_integer_in_range<'ctx>(
    e: &Emitter<'_, 'ctx>,
    a: Value<'ctx>,
    to: DType,
) -> Value<'ctx> {
    e.trunc_int(e.float_to_integer(a, Elem::I32, true), Elem::of(to))
}

/// A 64-bit integer that f64 represents exactly: the integer itself, or with its low bits folded into a sticky bit
/// (round to odd), so that further rounding is correct.
fn to_odd<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>, from: DType) -> Value<'ctx> {
    const DROPPED: i64 = 0xfff;
    let zero = e.int(a, 0);
    let dropped = e.icmp(IntPredicate::NE, e.and(a, e.int(a, DROPPED)), zero);
    let sticky = e.select(dropped, e.int(a, DROPPED + 1), zero);
    let odd = e.or(e.and(a, e.int(a, !DROPPED)), sticky);
    // Values below 2^53 are exact: the bits above are all equal to the sign.
    let exact = if from.is_signed() {
        let above = e.ashr(a, e.int(a, 53));
        let moved = e.iadd(above, e.int(a, 1));
        e.icmp(IntPredicate::ULE, moved, e.int(a, 1))
    } else {
        e.icmp(IntPredicate::ULT, a, e.int(a, 1 << 53))
    };
    e.select(exact, a, odd)
}
