//! Logic on bools, and on the bits of integers.

use super::elementwise::{binary, unary};
use super::support::{Imported, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("And", &[1, 7], |ctx| binary(ctx, "and")),
    operator("BitShift", &[11], bit_shift),
    operator("BitwiseAnd", &[18], |ctx| binary(ctx, "bit_and")),
    operator("BitwiseNot", &[18], |ctx| unary(ctx, "bit_not")),
    operator("BitwiseOr", &[18], |ctx| binary(ctx, "bit_or")),
    operator("BitwiseXor", &[18], |ctx| binary(ctx, "bit_xor")),
    operator("Not", &[1], |ctx| unary(ctx, "not")),
    operator("Or", &[1, 7], |ctx| binary(ctx, "or")),
    operator("Xor", &[1, 7], |ctx| binary(ctx, "xor")),
];

fn bit_shift(ctx: &mut NodeContext<'_>) -> Imported {
    match ctx.attributes().require("direction")? {
        "LEFT" => binary(ctx, "shl"),
        "RIGHT" => binary(ctx, "shr"),
        other => Err(ctx.attribute_error("direction", "\"LEFT\" or \"RIGHT\"", other)),
    }
}
