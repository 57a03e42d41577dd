//! Quantised operators: dequantise, apply the operator, quantise again.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_tensor::DType;

use super::super::conv::{along_axis, centred};
use super::super::matmul::{integer_product, product};
use super::super::quantize::{dequantize_linear, quantize_linear, quantized, rounded_to_steps};
use super::super::support::{Imported, one, operator};
use crate::import::{Operator, Takes};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("DequantizeLinear", &[1], dequantize_linear).taking(Takes::Narrow),
    operator("DynamicQuantizeMatMul", &[1], dynamic_matmul),
    operator("MatMulIntegerToFloat", &[1], matmul_to_float),
    operator("QGemm", &[1], gemm),
    operator("QLinearAdd", &[1], |ctx| binary(ctx, "add")),
    operator("QLinearConcat", &[1], concat),
    operator("QLinearGlobalAveragePool", &[1], global_average_pool),
    operator("QLinearLeakyRelu", &[1], leaky_relu),
    operator("QLinearMul", &[1], |ctx| binary(ctx, "mul")),
    operator("QLinearSigmoid", &[1], |ctx| unary(ctx, "sigmoid")),
    operator("QLinearSoftmax", &[1], softmax),
    operator("QuantizeLinear", &[1], quantize_linear).taking(Takes::Narrow),
];

/// Operand `index`, dequantised by the scale and zero point at the next two.
fn numbers(ctx: &mut NodeContext<'_>, index: usize) -> Result<ValueId, Error> {
    let (x, scale) = (ctx.input(index)?, ctx.input(index + 1)?);
    let scale = ctx.as_scalar(scale)?;
    let wide = centred(ctx, x, ctx.optional(index + 2), 0)?;
    let wide = ctx.cast(wide, DType::F32)?;
    ctx.mul(wide, scale)
}

/// Numbers quantised by the scale and zero point at operands `index` and the next; of the type of `like` without a zero
/// point.
fn requantized(
    ctx: &mut NodeContext<'_>,
    number: ValueId,
    index: usize,
    like: DType,
) -> Result<ValueId, Error> {
    let scale = ctx.input(index)?;
    let scale = ctx.as_scalar(scale)?;
    let zero_point = match ctx.optional(index + 1) {
        Some(value) => Some(ctx.as_scalar(value)?),
        None => None,
    };
    let to = zero_point.map_or(Ok(like), |value| ctx.dtype(value))?;
    quantized(ctx, number, scale, zero_point, (to, to.bits()))
}

fn binary(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    let like = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let (left, right) = (numbers(ctx, 0)?, numbers(ctx, 3)?);
    let y = ctx.map(function, &[left, right])?;
    one(requantized(ctx, y, 6, like)?)
}

fn unary(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    let like = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let x = numbers(ctx, 0)?;
    let y = ctx.map(function, &[x])?;
    one(requantized(ctx, y, 3, like)?)
}

fn leaky_relu(ctx: &mut NodeContext<'_>) -> Imported {
    let like = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let alpha = f64::from(ctx.attributes().get_or("alpha", 0.01_f32)?);
    let x = numbers(ctx, 0)?;
    let y = ctx.map_with("leaky_relu", &[alpha], &[x])?;
    one(requantized(ctx, y, 3, like)?)
}

fn softmax(ctx: &mut NodeContext<'_>) -> Imported {
    let like = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let x = numbers(ctx, 0)?;
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(-1, rank)?;
    let y = if ctx.attributes().get_or("opset", 13_i64)? < 13 && axis + 1 != rank {
        return Err(ctx.unsupported("a softmax over several axes"));
    } else {
        ctx.build(|builder| builder.softmax(x, axis))?
    };
    one(requantized(ctx, y, 3, like)?)
}

fn global_average_pool(ctx: &mut NodeContext<'_>) -> Imported {
    if ctx.flag("channels_last", false)? {
        return Err(ctx.unsupported("channels along the last axis"));
    }
    let like = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let x = numbers(ctx, 0)?;
    let axes: Vec<usize> = (2..ctx.rank(x)?).collect();
    let y = ctx.reduce(ReduceFunction::Mean, x, &axes, true)?;
    one(requantized(ctx, y, 3, like)?)
}

/// Scale and zero point of the result come first, then three operands per part.
fn concat(ctx: &mut NodeContext<'_>) -> Imported {
    let like = ctx.input(2).and_then(|x| ctx.dtype(x))?;
    let mut parts = Vec::new();
    for index in (2..ctx.n_inputs()).step_by(3) {
        parts.push(numbers(ctx, index)?);
    }
    let rank = ctx.input(2).and_then(|x| ctx.rank(x))?;
    let axis = ctx.attributes().require::<i64>("axis")?;
    let axis = ctx.axis(axis, rank)?;
    let y = ctx.build(|builder| builder.concat(&parts, axis))?;
    one(requantized(ctx, y, 0, like)?)
}

/// `alpha * a * b + c`, unquantised without a scale for the result: operands
/// `a, scale, zero, b, scale, zero, c, y scale, y zero`.
fn gemm(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b) = (ctx.input(0)?, ctx.input(3)?);
    let alpha = f64::from(ctx.attributes().get_or("alpha", 1.0_f32)?);
    let like = ctx.dtype(a)?;
    let mut left = centred(ctx, a, ctx.optional(2), 0)?;
    let transposed = ctx.flag("transB", false)?;
    let columns = usize::from(!transposed);
    let mut right = centred(ctx, b, ctx.optional(5), columns)?;
    if ctx.flag("transA", false)? {
        left = ctx.transpose(left, &[1, 0])?;
    }
    if transposed {
        right = ctx.transpose(right, &[1, 0])?;
    }
    let mut sum = product(ctx, left, right, DType::I32)?;
    if let Some(c) = ctx.optional(6) {
        sum = ctx.add(sum, c)?;
    }
    let (a_scale, b_scale) = (ctx.input(1)?, ctx.input(4)?);
    let a_scale = ctx.as_scalar(a_scale)?;
    let b_scale = along_axis(ctx, b_scale, 1, sum)?;
    let factor = ctx.mul(a_scale, b_scale)?;
    let mut factor = ctx.scaled(factor, alpha)?;
    let wide = ctx.cast(sum, DType::F32)?;
    let Some(scale) = ctx.optional(7) else {
        return one(ctx.mul(wide, factor)?);
    };
    let scale = ctx.as_scalar(scale)?;
    factor = ctx.div(factor, scale)?;
    let zero_point = match ctx.optional(8) {
        Some(value) => Some(ctx.as_scalar(value)?),
        None => None,
    };
    let to = zero_point.map_or(Ok(like), |value| ctx.dtype(value))?;
    let steps = ctx.mul(wide, factor)?;
    one(rounded_to_steps(ctx, steps, zero_point, (to, to.bits()))?)
}

/// Operands `a, b, a scale, b scale, a zero, b zero, bias`.
fn matmul_to_float(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    let sum = integer_product(ctx, a, b, (ctx.optional(4), ctx.optional(5)))?;
    let (a_scale, b_scale) = (ctx.input(2)?, ctx.input(3)?);
    let a_scale = ctx.as_scalar(a_scale)?;
    scaled_product(ctx, sum, (a_scale, b_scale), 6)
}

/// A product in i32, times both scales, plus a bias.
fn scaled_product(
    ctx: &mut NodeContext<'_>,
    sum: ValueId,
    (left_scale, right_scale): (ValueId, ValueId),
    bias: usize,
) -> Imported {
    let columns = ctx.rank(sum)?.saturating_sub(1);
    let right_scale = along_axis(ctx, right_scale, columns, sum)?;
    let factor = ctx.mul(left_scale, right_scale)?;
    let wide = ctx.cast(sum, DType::F32)?;
    let mut y = ctx.mul(wide, factor)?;
    if let Some(bias) = ctx.optional(bias) {
        y = ctx.add(y, bias)?;
    }
    one(y)
}

/// Operands `a, b, b scale, b zero, bias`; `a` is quantised to u8 according to its range.
fn dynamic_matmul(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    let (a, scale, zero_point) = super::super::quantize::dynamically_quantized(ctx, a)?;
    let sum = integer_product(ctx, a, b, (Some(zero_point), ctx.optional(3)))?;
    let b_scale = ctx.input(2)?;
    scaled_product(ctx, sum, (scale, b_scale), 4)
}
