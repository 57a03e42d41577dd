//! Comparisons, float tests, and selection.

use kiln_tensor::DType;

use super::elementwise::{binary, unary};
use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("Equal", &[1, 7], |ctx| binary(ctx, "eq")),
    operator("Greater", &[1, 7], |ctx| binary(ctx, "gt")),
    operator("GreaterOrEqual", &[12], |ctx| binary(ctx, "ge")),
    operator("IsInf", &[10], is_inf),
    operator("IsNaN", &[9], |ctx| unary(ctx, "is_nan")),
    operator("Less", &[1, 7], |ctx| binary(ctx, "lt")),
    operator("LessOrEqual", &[12], |ctx| binary(ctx, "le")),
    operator("Where", &[9], select),
];

fn is_inf(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let negative = ctx.flag("detect_negative", true)?;
    let positive = ctx.flag("detect_positive", true)?;
    one(match (negative, positive) {
        (true, true) => ctx.map("is_inf", &[x])?,
        (false, false) => {
            let dims = ctx.shape(x)?;
            ctx.filled(DType::Bool, 0.0, &dims)?
        }
        (negative, _) => {
            let sign = if negative { -1.0 } else { 1.0 };
            let infinity = ctx.scalar_like(x, sign * f64::INFINITY)?;
            ctx.map("eq", &[x, infinity])?
        }
    })
}

fn select(ctx: &mut NodeContext<'_>) -> Imported {
    let (condition, yes, no) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    one(ctx.map("select", &[condition, yes, no])?)
}
