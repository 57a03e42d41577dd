//! The definition of every primitive operation, on slices.
//!
//! The table in `op` is implemented here, once, for single elements and for blocks. Invariant: operands and result have
//! the dtypes of the operation's signature and one length; the caller has typed the expression.

mod cast;
mod float;
mod integer;
mod number;

use kiln_tensor::{DType, bf16, f16, match_dtype};

use crate::ScalarFault;
use crate::block::{Block, BlockMut, Lane};
use crate::op::{ScalarOp, Signature};

use float::Float;
use integer::Integer;
use number::Number;

/// Runs a block with a type name bound to the element type of a dtype of one kind.
macro_rules! match_kind {
    ($dtype:expr, $ty:ident => $body:expr, $($variant:ident $element:ty),*) => {
        match $dtype {
            $(DType::$variant => { type $ty = $element; $body })*
            other => unreachable!("the expression was typed: no such operation on {other}"),
        }
    };
}

macro_rules! match_float {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match_kind!($dtype, $ty => $body, F64 f64, F32 f32, F16 f16, BF16 bf16)
    };
}

macro_rules! match_integer {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match_kind!($dtype, $ty => $body,
            I64 i64, I32 i32, I16 i16, I8 i8, U64 u64, U32 u32, U16 u16, U8 u8)
    };
}

macro_rules! match_number {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match_kind!($dtype, $ty => $body, F64 f64, F32 f32, F16 f16, BF16 bf16,
            I64 i64, I32 i32, I16 i16, I8 i8, U64 u64, U32 u32, U16 u16, U8 u8)
    };
}

/// Applies an operation element by element.
pub(crate) fn apply(
    op: ScalarOp,
    operands: &[Block<'_>],
    out: BlockMut<'_>,
) -> Result<(), ScalarFault> {
    match (op.signature(), operands) {
        (Signature::Numeric1, &[a]) => {
            match_number!(a.dtype(), T => numeric1::<T>(op, T::of(a), T::of_mut(out)));
            Ok(())
        }
        (Signature::Numeric2, &[a, b]) => {
            match_number!(a.dtype(), T => numeric2::<T>(op, T::of(a), T::of(b), T::of_mut(out)))
        }
        (Signature::Float1, &[a]) => {
            let function = float::function(op);
            match_float!(a.dtype(), T => {
                map(T::of(a), T::of_mut(out), |x: T| T::from_f64(function(x.to_f64())));
            });
            Ok(())
        }
        (Signature::Float2, &[a, b]) => {
            match_float!(a.dtype(), T => {
                map2(T::of(a), T::of(b), T::of_mut(out), |x: T, y: T| {
                    T::from_f64(libm::atan2(x.to_f64(), y.to_f64()))
                });
            });
            Ok(())
        }
        (Signature::FloatTest, &[a]) => {
            let out = bool::of_mut(out);
            match_float!(a.dtype(), T => match op {
                ScalarOp::IsNan => map(T::of(a), out, |x: T| x.to_f64().is_nan()),
                _ => map(T::of(a), out, |x: T| x.to_f64().is_infinite()),
            });
            Ok(())
        }
        (Signature::Compare, &[a, b]) => {
            match_dtype!(a.dtype(), T => compare::<T>(op, T::of(a), T::of(b), bool::of_mut(out)));
            Ok(())
        }
        (Signature::Logical1, &[a]) => {
            map(bool::of(a), bool::of_mut(out), |x: bool| !x);
            Ok(())
        }
        (Signature::Logical2, &[a, b]) => {
            let (a, b, out) = (bool::of(a), bool::of(b), bool::of_mut(out));
            match op {
                ScalarOp::And => map2(a, b, out, |x, y| x & y),
                ScalarOp::Or => map2(a, b, out, |x, y| x | y),
                _ => map2(a, b, out, |x, y| x ^ y),
            }
            Ok(())
        }
        (Signature::Bits1, &[a]) => {
            match_integer!(a.dtype(), T => map(T::of(a), T::of_mut(out), |x: T| !x));
            Ok(())
        }
        (Signature::Bits2, &[a, b]) => {
            match_integer!(a.dtype(), T => bits2::<T>(op, T::of(a), T::of(b), T::of_mut(out)));
            Ok(())
        }
        (Signature::Select, &[condition, a, b]) => {
            let condition = bool::of(condition);
            match_dtype!(a.dtype(), T => select::<T>(condition, T::of(a), T::of(b), T::of_mut(out)));
            Ok(())
        }
        (Signature::Cast(_), &[a]) => {
            cast::apply(a, out);
            Ok(())
        }
        _ => unreachable!("operations have as many operands as their signature says"),
    }
}

fn numeric1<T: Number>(op: ScalarOp, a: &[T], out: &mut [T]) {
    match op {
        ScalarOp::Neg => map(a, out, T::neg),
        ScalarOp::Abs => map(a, out, T::abs),
        _ => map(a, out, T::sign),
    }
}

fn numeric2<T: Number>(op: ScalarOp, a: &[T], b: &[T], out: &mut [T]) -> Result<(), ScalarFault> {
    let partial = match op {
        ScalarOp::Div => T::div,
        ScalarOp::FloorDiv => T::floor_div,
        ScalarOp::Rem => T::rem,
        ScalarOp::FloorMod => T::floor_mod,
        ScalarOp::Pow => T::pow,
        _ => {
            total2(op, a, b, out);
            return Ok(());
        }
    };
    try_map2(a, b, out, partial).ok_or(ScalarFault::DivisionByZero { op: op.name() })
}

fn total2<T: Number>(op: ScalarOp, a: &[T], b: &[T], out: &mut [T]) {
    match op {
        ScalarOp::Add => map2(a, b, out, T::add),
        ScalarOp::Sub => map2(a, b, out, T::sub),
        ScalarOp::Mul => map2(a, b, out, T::mul),
        ScalarOp::Min => map2(a, b, out, T::min),
        _ => map2(a, b, out, T::max),
    }
}

fn compare<T: Lane + PartialOrd>(op: ScalarOp, a: &[T], b: &[T], out: &mut [bool]) {
    match op {
        ScalarOp::Eq => map2(a, b, out, |x, y| x == y),
        ScalarOp::Ne => map2(a, b, out, |x, y| x != y),
        ScalarOp::Lt => map2(a, b, out, |x, y| x < y),
        ScalarOp::Le => map2(a, b, out, |x, y| x <= y),
        ScalarOp::Gt => map2(a, b, out, |x, y| x > y),
        _ => map2(a, b, out, |x, y| x >= y),
    }
}

fn bits2<T: Integer>(op: ScalarOp, a: &[T], b: &[T], out: &mut [T]) {
    match op {
        ScalarOp::BitAnd => map2(a, b, out, |x, y| x & y),
        ScalarOp::BitOr => map2(a, b, out, |x, y| x | y),
        ScalarOp::BitXor => map2(a, b, out, |x, y| x ^ y),
        ScalarOp::Shl => map2(a, b, out, T::shl),
        _ => map2(a, b, out, T::shr),
    }
}

fn select<T: Lane>(condition: &[bool], a: &[T], b: &[T], out: &mut [T]) {
    for (((out, &condition), &x), &y) in out.iter_mut().zip(condition).zip(a).zip(b) {
        *out = if condition { x } else { y };
    }
}

#[inline]
fn map<T: Copy, R>(a: &[T], out: &mut [R], function: impl Fn(T) -> R) {
    for (out, &x) in out.iter_mut().zip(a) {
        *out = function(x);
    }
}

#[inline]
fn map2<T: Copy, R>(a: &[T], b: &[T], out: &mut [R], function: impl Fn(T, T) -> R) {
    for ((out, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *out = function(x, y);
    }
}

/// `None` at the first element without a value.
#[inline]
fn try_map2<T: Copy>(
    a: &[T],
    b: &[T],
    out: &mut [T],
    function: impl Fn(T, T) -> Option<T>,
) -> Option<()> {
    for ((out, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *out = function(x, y)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
