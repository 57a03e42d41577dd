//! Arithmetic and mathematical functions, element by element.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("Abs", &[6], |ctx| unary(ctx, "abs")),
    operator("Acos", &[7], |ctx| unary(ctx, "acos")),
    operator("Acosh", &[9], |ctx| unary(ctx, "acosh")),
    operator("Add", &[1, 7], |ctx| binary(ctx, "add")),
    operator("Asin", &[7], |ctx| unary(ctx, "asin")),
    operator("Asinh", &[9], |ctx| unary(ctx, "asinh")),
    operator("Atan", &[7], |ctx| unary(ctx, "atan")),
    operator("Atanh", &[9], |ctx| unary(ctx, "atanh")),
    operator("Ceil", &[6], |ctx| unary(ctx, "ceil")),
    operator("Cos", &[7], |ctx| unary(ctx, "cos")),
    operator("Cosh", &[9], |ctx| unary(ctx, "cosh")),
    operator("Div", &[1, 7], |ctx| binary(ctx, "div")),
    operator("Erf", &[9], |ctx| unary(ctx, "erf")),
    operator("Exp", &[6], |ctx| unary(ctx, "exp")),
    operator("Floor", &[6], |ctx| unary(ctx, "floor")),
    operator("Log", &[6], |ctx| unary(ctx, "log")),
    operator("Max", &[6], |ctx| variadic(ctx, "max")),
    operator("Mean", &[6], mean),
    operator("Min", &[6], |ctx| variadic(ctx, "min")),
    operator("Mod", &[10], modulo),
    operator("Mul", &[1, 7], |ctx| binary(ctx, "mul")),
    operator("Neg", &[6], |ctx| unary(ctx, "neg")),
    operator("Pow", &[1, 7], pow),
    operator("Reciprocal", &[6], |ctx| unary(ctx, "reciprocal")),
    operator("Round", &[11], |ctx| unary(ctx, "round_even")),
    operator("Sign", &[9], |ctx| unary(ctx, "sign")),
    operator("Sin", &[7], |ctx| unary(ctx, "sin")),
    operator("Sinh", &[9], |ctx| unary(ctx, "sinh")),
    operator("Sqrt", &[6], |ctx| unary(ctx, "sqrt")),
    operator("Sub", &[1, 7], |ctx| binary(ctx, "sub")),
    operator("Sum", &[6], |ctx| variadic(ctx, "add")),
    operator("Tan", &[7], |ctx| unary(ctx, "tan")),
];

pub(super) fn unary(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    let x = ctx.input(0)?;
    one(ctx.map(function, &[x])?)
}

pub(super) fn binary(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    let (left, right) = (ctx.input(0)?, right_operand(ctx)?);
    one(ctx.map(function, &[left, right])?)
}

/// Operand 1. Before version 7, an attribute gives the axis of operand 0 at which its axes begin.
fn right_operand(ctx: &mut NodeContext<'_>) -> Result<ValueId, crate::Error> {
    let right = ctx.input(1)?;
    let Some(axis) = ctx
        .attributes()
        .get::<i64>("axis")?
        .filter(|_| ctx.version() < 7)
    else {
        return Ok(right);
    };
    let left = ctx.input(0)?;
    let (rank, own) = (ctx.rank(left)?, ctx.rank(right)?);
    let axis = ctx.axis(axis, rank)?;
    if axis + own > rank {
        let expected = format!("an axis after which {own} axes follow");
        return Err(ctx.attribute_error("axis", expected, axis));
    }
    let after: Vec<usize> = (own..rank - axis).collect();
    ctx.build(|builder| builder.unsqueeze(right, &after))
}

fn variadic(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    one(joined(ctx, function)?)
}

fn joined(ctx: &mut NodeContext<'_>, function: &str) -> Result<ValueId, crate::Error> {
    let mut joined = ctx.input(0)?;
    for index in 1..ctx.n_inputs() {
        let next = ctx.input(index)?;
        joined = ctx.map(function, &[joined, next])?;
    }
    Ok(joined)
}

fn mean(ctx: &mut NodeContext<'_>) -> Imported {
    let count = ctx.n_inputs();
    let sum = joined(ctx, "add")?;
    let count = ctx.scalar_like(sum, count as f64)?;
    one(ctx.div(sum, count)?)
}

/// `fmod = 0` takes the sign of the divisor, as in Python; `fmod = 1` that of the dividend, as in C.
fn modulo(ctx: &mut NodeContext<'_>) -> Imported {
    let truncated = ctx.flag("fmod", false)?;
    binary(ctx, if truncated { "rem" } else { "floor_mod" })
}

/// Base and exponent may have different dtypes; the result has the base's.
fn pow(ctx: &mut NodeContext<'_>) -> Imported {
    let (base, exponent) = (ctx.input(0)?, right_operand(ctx)?);
    let (dtype, other) = (ctx.dtype(base)?, ctx.dtype(exponent)?);
    if dtype.is_integer() && other.is_float() {
        let wide = power(ctx, base, exponent, DType::F64)?;
        return one(ctx.cast(wide, dtype)?);
    }
    one(power(ctx, base, exponent, dtype)?)
}

fn power(
    ctx: &mut NodeContext<'_>,
    base: ValueId,
    exponent: ValueId,
    dtype: DType,
) -> Result<ValueId, crate::Error> {
    let (base, exponent) = (ctx.cast(base, dtype)?, ctx.cast(exponent, dtype)?);
    ctx.map("pow", &[base, exponent])
}
