//! Float operations: f32 and f64 directly, 16-bit floats through f32.

use inkwell::FloatPredicate;

use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::half;
use crate::emit::{Elem, Emitter, Value, elem};
use crate::math;

/// Emits an operation of floats; `None` for any other operation.
pub(super) fn emit<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    dtype: DType,
    operands: &[Value<'ctx>],
) -> Option<Value<'ctx>> {
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return native(e, op, operands);
    }
    // Moves and bit tests need no arithmetic.
    match (op, operands) {
        (ScalarOp::Neg, &[a]) => return Some(e.xor(a, e.int(a, 0x8000))),
        (ScalarOp::Abs, &[a]) => return Some(e.and(a, e.int(a, 0x7fff))),
        _ => {}
    }
    let wide: Vec<Value<'ctx>> = operands
        .iter()
        .map(|&operand| half::widen(e, dtype, operand))
        .collect();
    if let (ScalarOp::FloorDiv, &[a, b]) = (op, wide.as_slice()) {
        // The quotient is rounded to the dtype before it is floored.
        let quotient = half::widen(e, dtype, half::narrow(e, dtype, e.fdiv(a, b)));
        return Some(half::narrow(e, dtype, e.floor(quotient)));
    }
    let value = native(e, op, &wide)?;
    Some(if elem(value) == Elem::I1 {
        value
    } else {
        half::narrow(e, dtype, value)
    })
}

fn native<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    operands: &[Value<'ctx>],
) -> Option<Value<'ctx>> {
    match *operands {
        [a] => unary(e, op, a),
        [a, b] => binary(e, op, a, b),
        _ => None,
    }
}

fn binary<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    a: Value<'ctx>,
    b: Value<'ctx>,
) -> Option<Value<'ctx>> {
    let compare = |predicate| e.fcmp(predicate, a, b);
    // Coordinates are f64: one rounding more or less would move them across a border.
    let contracted = |value| match elem(value) {
        Elem::F32 => e.contracted(value),
        _ => value,
    };
    Some(match op {
        ScalarOp::Add => contracted(e.fadd(a, b)),
        ScalarOp::Sub => contracted(e.fsub(a, b)),
        ScalarOp::Mul => contracted(e.fmul(a, b)),
        ScalarOp::Div => e.fdiv(a, b),
        ScalarOp::FloorDiv => e.floor(e.fdiv(a, b)),
        ScalarOp::Rem => math::remainder(e, a, b),
        ScalarOp::FloorMod => math::floor_remainder(e, a, b),
        ScalarOp::Pow => math::pow(e, a, b),
        ScalarOp::Atan2 => math::atan2(e, a, b),
        ScalarOp::Min => e.minimum(a, b),
        ScalarOp::Max => e.maximum(a, b),
        ScalarOp::Eq => compare(FloatPredicate::OEQ),
        ScalarOp::Ne => compare(FloatPredicate::UNE),
        ScalarOp::Lt => compare(FloatPredicate::OLT),
        ScalarOp::Le => compare(FloatPredicate::OLE),
        ScalarOp::Gt => compare(FloatPredicate::OGT),
        ScalarOp::Ge => compare(FloatPredicate::OGE),
        _ => return None,
    })
}

fn unary<'ctx>(e: &Emitter<'_, 'ctx>, op: ScalarOp, a: Value<'ctx>) -> Option<Value<'ctx>> {
    Some(match op {
        ScalarOp::Neg => e.fneg(a),
        ScalarOp::Abs => e.fabs(a),
        ScalarOp::Sign => sign(e, a),
        ScalarOp::Floor => e.floor(a),
        ScalarOp::Ceil => e.ceil(a),
        ScalarOp::RoundEven => e.round_even(a),
        ScalarOp::Trunc => e.trunc_float(a),
        ScalarOp::Sqrt => e.sqrt(a),
        ScalarOp::IsNan => e.is_nan(a),
        ScalarOp::IsInf => {
            let infinity = e.float(a, f64::INFINITY);
            e.fcmp(FloatPredicate::OEQ, e.fabs(a), infinity)
        }
        _ => return math::function(e, op, a),
    })
}

fn sign<'ctx>(e: &Emitter<'_, 'ctx>, a: Value<'ctx>) -> Value<'ctx> {
    let one = e.copysign(e.float(a, 1.0), a);
    let keep = e.fcmp(FloatPredicate::UEQ, a, e.float(a, 0.0));
    e.select(keep, a, one)
}
