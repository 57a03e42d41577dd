//! Matrix products.

use kiln_ir::{Op, ReduceFunction, ValueId};
use kiln_tensor::DType;

use super::conv::{along_axis, centred, factors};
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
    let operands = factors(ctx, [left, right], out)?;
    let product = ctx.op(Op::Matmul { out }, &operands)?;
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
    let zero_points = (ctx.optional(2), ctx.optional(3));
    one(integer_product(ctx, left, right, zero_points)?)
}

/// The product of integers minus their zero points (one, or rows of the left and columns of the right), in i32.
///
/// The left operand is multiplied without conversion: its zero point times the sum of each column on the right, which
/// is often a constant, is subtracted from the product. All of that is exact, modulo 2^32.
pub(super) fn integer_product(
    ctx: &mut NodeContext<'_>,
    left: ValueId,
    right: ValueId,
    (left_zero, right_zero): (Option<ValueId>, Option<ValueId>),
) -> Result<ValueId, Error> {
    let (left_rank, right_rank) = (ctx.rank(left)?, ctx.rank(right)?);
    let columns = right_rank.saturating_sub(1);
    let right = centred(ctx, right, right_zero, columns)?;
    let rows = left_rank.saturating_sub(2);
    let is_matrix = left_rank > 1 && right_rank > 1;
    let Some(zero) = left_zero.filter(|_| is_matrix) else {
        let left = centred(ctx, left, left_zero, rows)?;
        return product(ctx, left, right, DType::I32);
    };
    let zero = ctx.cast(zero, DType::I32)?;
    let zero = along_axis(ctx, zero, rows, left)?;
    let wide = ctx.cast(right, DType::I32)?;
    let sums = ctx.reduce(ReduceFunction::Sum, wide, &[right_rank - 2], true)?;
    let excess = ctx.mul(sums, zero)?;
    let product = product(ctx, left, right, DType::I32)?;
    ctx.sub(product, excess)
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

/// Multiplies by a float; integers are computed in f64 unless it is 1.
fn scaled(ctx: &mut NodeContext<'_>, value: ValueId, factor: f64) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(value)?;
    if factor == 1.0 || dtype.is_float() {
        return ctx.scaled(value, factor);
    }
    let wide = ctx.cast(value, DType::F64)?;
    let wide = ctx.scaled(wide, factor)?;
    ctx.cast(wide, dtype)
}
