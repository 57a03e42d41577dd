//! Matrix products.

use kiln_ir::{Op, ValueId};
use kiln_tensor::DType;

use super::conv::centred;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Gemm", &[1], gemm),
    operator("MatMul", &[1], matmul),
    operator("MatMulInteger", &[10], matmul_integer),
];

fn matmul(ctx: &mut NodeContext<'_>) -> Imported {
    let (left, right) = (ctx.input(0)?, ctx.input(1)?);
    let out = ctx.dtype(left)?;
    one(product(ctx, left, right, out)?)
}

/// As numpy's `matmul`: a vector on the left is a row, one on the right a column, and its axis is removed.
pub(super) fn product(
    ctx: &mut NodeContext<'_>,
    left: ValueId,
    right: ValueId,
    out: DType,
) -> Result<ValueId, Error> {
    let is_row = ctx.rank(left)? == 1;
    let is_column = ctx.rank(right)? == 1;
    let left = if is_row {
        ctx.build(|builder| builder.unsqueeze(left, &[0]))?
    } else {
        left
    };
    let right = if is_column {
        ctx.build(|builder| builder.unsqueeze(right, &[1]))?
    } else {
        right
    };
    let product = ctx.op(Op::Matmul { out }, &[left, right])?;
    let rank = ctx.rank(product)?;
    let mut gone = Vec::new();
    if is_row {
        gone.push(rank - 2);
    }
    if is_column {
        gone.push(rank - 1);
    }
    ctx.build(|builder| builder.squeeze(product, &gone))
}

/// Integers minus their zero points (rows of the left, columns of the right), in i32.
fn matmul_integer(ctx: &mut NodeContext<'_>) -> Imported {
    let (left, right) = (ctx.input(0)?, ctx.input(1)?);
    let rows = ctx.rank(left)?.saturating_sub(2);
    let columns = ctx.rank(right)?.saturating_sub(1);
    let left = centred(ctx, left, ctx.optional(2), rows)?;
    let right = centred(ctx, right, ctx.optional(3), columns)?;
    one(product(ctx, left, right, DType::I32)?)
}

/// `alpha * a * b + beta * c`, with `a` and `b` optionally transposed.
pub(super) fn gemm(ctx: &mut NodeContext<'_>) -> Imported {
    let (mut a, mut b) = (ctx.input(0)?, ctx.input(1)?);
    let alpha = f64::from(ctx.attributes().get_or("alpha", 1.0_f32)?);
    let beta = f64::from(ctx.attributes().get_or("beta", 1.0_f32)?);
    for (index, operand) in [a, b].into_iter().enumerate() {
        if ctx.rank(operand)? != 2 {
            let found = ctx.builder().describe(operand);
            return Err(ctx.operand_error(index, "a matrix", found));
        }
    }
    if ctx.flag("transA", false)? {
        a = ctx.transpose(a, &[1, 0])?;
    }
    if ctx.flag("transB", false)? {
        b = ctx.transpose(b, &[1, 0])?;
    }
    let product = ctx.matmul(a, b)?;
    let product = scaled(ctx, product, alpha)?;
    match ctx.optional(2) {
        Some(c) => {
            let c = scaled(ctx, c, beta)?;
            one(ctx.add(product, c)?)
        }
        None => one(product),
    }
}

/// Times a float; integers go through f64 unless it is 1.
fn scaled(ctx: &mut NodeContext<'_>, value: ValueId, factor: f64) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(value)?;
    if factor == 1.0 || dtype.is_float() {
        return ctx.scaled(value, factor);
    }
    let wide = ctx.cast(value, DType::F64)?;
    let wide = ctx.scaled(wide, factor)?;
    ctx.cast(wide, dtype)
}
