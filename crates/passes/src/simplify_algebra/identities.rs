//! Identity and absorbing elements, functions applied twice, equal operands.

use crate::constants::{Splat, scalar_of, splat};
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, TensorType, ValueId};
use kiln_scalar::Function;
use kiln_tensor::Tensor;

/// The name and operands of an element-wise function of two operands.
fn binary<'a>(site: &Site<'a>) -> Option<(&'static str, ValueId, ValueId)> {
    match (site.op(), site.operands()) {
        (Op::Map { function, .. }, &[left, right]) => Some((function.name(), left, right)),
        _ => None,
    }
}

/// The name and operand of an element-wise function of one operand.
fn unary<'a>(site: &Site<'a>) -> Option<(&'static str, ValueId)> {
    match (site.op(), site.operand()) {
        (Op::Map { function, .. }, Some(operand)) => Some((function.name(), operand)),
        _ => None,
    }
}

/// An element-wise function by name.
pub(super) fn map(name: &str, operands: impl IntoIterator<Item = ValueId>) -> Option<Rewrite> {
    Some(Rewrite::op(Op::map(Function::by_name(name)?), operands))
}

/// `x + -0.0`, `x - 0`, `x * 1`, `x / 1`, `x or false` and the like: `x`, broadcast to the result's sizes.
pub(super) fn drop_neutral_operand(site: &mut Site<'_>) -> Option<Rewrite> {
    let (name, left, right) = binary(site)?;
    let is_neutral = |element: Splat| match name {
        "add" => element.is_float(-0.0) || element.is_integer(0),
        "sub" => element.is_float(0.0) || element.is_integer(0),
        "mul" | "div" | "pow" => element.is_number(1),
        "or" | "xor" => element == Splat::Bool(false),
        "and" => element == Splat::Bool(true),
        "bit_or" | "bit_xor" | "shl" | "shr" => element.is_integer(0),
        _ => false,
    };
    let commutes = matches!(
        name,
        "add" | "mul" | "or" | "xor" | "and" | "bit_or" | "bit_xor"
    );
    let neutral = |site: &Site<'_>, value| site.splat(value).is_some_and(is_neutral);
    if neutral(site, right) {
        return site.as_result(left);
    }
    if commutes && neutral(site, left) {
        return site.as_result(right);
    }
    None
}

/// `x * 0` of integers, `x and false`: zeros.
pub(super) fn multiply_by_zero(site: &mut Site<'_>) -> Option<Rewrite> {
    let (name, left, right) = binary(site)?;
    let is_zero = |value| match (name, site.splat(value)) {
        ("mul" | "bit_and", Some(element)) => element.is_integer(0),
        ("and", Some(element)) => element == Splat::Bool(false),
        _ => false,
    };
    if is_zero(left) || is_zero(right) {
        zeros(site)
    } else {
        None
    }
}

/// `x - x` of integers, `x xor x`: zeros.
pub(super) fn subtract_itself(site: &mut Site<'_>) -> Option<Rewrite> {
    let (name, left, right) = binary(site)?;
    let vanishes = match name {
        "sub" => !site.ty().dtype.is_float(),
        "xor" | "bit_xor" => true,
        _ => false,
    };
    if vanishes && left == right {
        zeros(site)
    } else {
        None
    }
}

fn zeros(site: &mut Site<'_>) -> Option<Rewrite> {
    let zero = Tensor::zeros(site.ty().dtype, &[]).ok()?;
    if site.ty().rank() == 0 {
        return Some(Rewrite::op(site.constant_op(zero)?, []));
    }
    let zero = site.emit_constant(zero)?;
    Some(Rewrite::op(
        Op::Broadcast {
            dims: site.ty().dims.clone(),
        },
        [zero],
    ))
}

/// `neg neg x`, `not not x`.
pub(super) fn undo_twice(site: &mut Site<'_>) -> Option<Rewrite> {
    let Some((name @ ("neg" | "not" | "bit_not"), operand)) = unary(site) else {
        return None;
    };
    let Some((inner, &[source])) = site.map_behind(operand) else {
        return None;
    };
    (inner == name)
        .then(|| site.like_result(source))
        .flatten()
        .map(Rewrite::Value)
}

/// `abs abs x`, `relu relu x`, `floor ceil x` and the like; `abs neg x` where numbers have signs.
pub(super) fn apply_once(site: &mut Site<'_>) -> Option<Rewrite> {
    let (name, operand) = unary(site)?;
    let Some((inner, &[source])) = site.map_behind(operand) else {
        return None;
    };
    let integral = |name| matches!(name, "floor" | "ceil" | "trunc" | "round_even");
    let idempotent = matches!(name, "abs" | "relu" | "sign") && inner == name;
    if idempotent || (integral(name) && integral(inner)) {
        return site.like_result(operand).map(Rewrite::Value);
    }
    // An unsigned negation wraps around and has no sign to lose.
    let dtype = site.ty().dtype;
    let has_sign = dtype.is_float() || dtype.is_signed();
    if (name, inner) == ("abs", "neg") && has_sign {
        return Some(Rewrite::op(site.op().clone(), [source]));
    }
    None
}

/// `max(x, x)`, `min(x, x)`, `x and x`, `x or x`; `x * x` is a square.
pub(super) fn same_operands(site: &mut Site<'_>) -> Option<Rewrite> {
    let (name, left, right) = binary(site)?;
    if left != right {
        return None;
    }
    match name {
        "max" | "min" | "and" | "or" | "bit_and" | "bit_or" => {
            site.like_result(left).map(Rewrite::Value)
        }
        "mul" => map("square", [left]),
        _ => None,
    }
}

/// `x + neg y` is `x - y`, `x - neg y` is `x + y`.
pub(super) fn join_negation(site: &mut Site<'_>) -> Option<Rewrite> {
    let Some((name @ ("add" | "sub"), left, right)) = binary(site) else {
        return None;
    };
    let negated = |value| match site.map_behind(value) {
        Some(("neg", &[source])) => Some(source),
        _ => None,
    };
    if let Some(source) = negated(right) {
        return map(if name == "add" { "sub" } else { "add" }, [left, source]);
    }
    match negated(left) {
        Some(source) if name == "add" => map("sub", [right, source]),
        _ => None,
    }
}

/// `(x + a) + b` of integers is `x + (a + b)`, for scalars `a` and `b`; so is `*`. Both wrap.
pub(super) fn join_integer_constants(site: &mut Site<'_>) -> Option<Rewrite> {
    let Some((name @ ("add" | "mul"), left, right)) = binary(site) else {
        return None;
    };
    let Some((inner, &[source, first])) = site.map_behind(left) else {
        return None;
    };
    let dtype = site.ty().dtype;
    let is_scalar = |value| {
        site.constant(value)
            .is_some_and(|constant| constant.tensor().rank() == 0)
    };
    if inner != name || !dtype.is_integer() || !is_scalar(first) || !is_scalar(right) {
        return None;
    }
    let joined = site.emit(
        site.op().clone(),
        [first, right],
        TensorType::new(dtype, []),
    );
    Some(Rewrite::op(site.op().clone(), [source, joined]))
}

/// `x / 2^k` is `x * 2^-k` where both are floats of the dtype: the same real number, rounded once.
pub(super) fn divide_by_power_of_two(site: &mut Site<'_>) -> Option<Rewrite> {
    let Some(("div", left, right)) = binary(site) else {
        return None;
    };
    let Some(Splat::Float(divisor)) = site
        .constant(right)
        .and_then(|constant| splat(&constant.tensor()))
    else {
        return None;
    };
    let mantissa = divisor.to_bits() & ((1 << 52) - 1);
    if mantissa != 0 || !divisor.is_normal() || site.tensor(right).is_none_or(|ty| ty.rank() > 0) {
        return None;
    }
    let factor = scalar_of(site.ty().dtype, divisor.recip())?;
    let factor = site.emit_constant(factor)?;
    map("mul", [left, factor])
}
