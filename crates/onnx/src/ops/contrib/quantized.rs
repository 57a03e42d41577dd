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
    operator("MatMulNBits", &[1], matmul_of_bits),
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

/// Operands `a, b, b scale, b zero, bias`; `a` is quantised to u8 by its own range.
fn dynamic_matmul(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    let (a, scale, zero_point) = super::super::quantize::dynamically_quantized(ctx, a)?;
    let sum = integer_product(ctx, a, b, (Some(zero_point), ctx.optional(3)))?;
    let b_scale = ctx.input(2)?;
    scaled_product(ctx, sum, (scale, b_scale), 4)
}

/// `a: [.., K]` times sub-byte weights: `b: u8[N, blocks, bytes]`, scales `[N * blocks]`, zero points packed the same way
/// or absent, for blocks of `block_size` along `K`.
fn matmul_of_bits(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b, scales) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let attributes = ctx.attributes();
    let bits = attributes.get_or("bits", 4_i64)?;
    let block = attributes.require::<i64>("block_size")?;
    let (depth, columns) = (
        attributes.require::<i64>("K")?,
        attributes.require::<i64>("N")?,
    );
    if ![2, 4, 8].contains(&bits) {
        return Err(ctx.unsupported(format!("weights of {bits} bits")));
    }
    if block < 16 || depth < 1 || columns < 1 {
        let found = format!("K = {depth}, N = {columns}, blocks of {block}");
        return Err(ctx.attribute_error(
            "block_size",
            "positive sizes and blocks of 16 or more",
            found,
        ));
    }
    if ctx.optional(4).is_some() {
        return Err(ctx.unsupported("weights in another order (\"g_idx\")"));
    }
    let blocks = (depth - 1) / block + 1;
    let dtype = ctx.dtype(a)?;
    let weights = unpacked(ctx, b, bits, (columns, blocks, block))?;
    let zero_points = match ctx.optional(3) {
        Some(packed) if ctx.dtype(packed)? == DType::U8 => {
            let wide = unpacked(ctx, packed, bits, (columns, 1, blocks))?;
            let dims = [columns, blocks, 1].map(|size| ctx.size(size));
            ctx.reshape(wide, &dims)?
        }
        Some(numbers) => {
            let dims = [columns, blocks, 1].map(|size| ctx.size(size));
            let numbers = ctx.cast(numbers, DType::F32)?;
            ctx.reshape(numbers, &dims)?
        }
        None => ctx.scalar(DType::F32, 2_f64.powi(bits as i32 - 1))?,
    };
    let centred = ctx.sub(weights, zero_points)?;
    let dims = [columns, blocks, 1].map(|size| ctx.size(size));
    let scales = ctx.cast(scales, DType::F32)?;
    let scales = ctx.reshape(scales, &dims)?;
    let scaled = ctx.mul(centred, scales)?;
    let dims = [columns, blocks.saturating_mul(block)].map(|size| ctx.size(size));
    let flat = ctx.reshape(scaled, &dims)?;
    let cut = ctx.narrow(flat, 1, 0, depth)?;
    let weights = ctx.transpose(cut, &[1, 0])?;
    let weights = ctx.cast(weights, dtype)?;
    let mut y = product(ctx, a, weights, dtype)?;
    if let Some(bias) = ctx.optional(5) {
        y = ctx.add(y, bias)?;
    }
    one(y)
}

/// Sub-byte codes, the first in a byte's low bits: `[rows, blocks, size]` as f32.
fn unpacked(
    ctx: &mut NodeContext<'_>,
    packed: ValueId,
    bits: i64,
    (rows, blocks, size): (i64, i64, i64),
) -> Result<ValueId, Error> {
    let per_byte = 8 / bits;
    let bytes = size.saturating_add(per_byte - 1) / per_byte;
    let dims = [rows, blocks, bytes, 1].map(|size| ctx.size(size));
    let packed = ctx.reshape(packed, &dims)?;
    let mask = ctx.scalar(DType::U8, 2_f64.powi(bits as i32) - 1.0)?;
    let mut codes = Vec::new();
    for place in 0..per_byte {
        let shift = ctx.scalar(DType::U8, (place * bits) as f64)?;
        let code = ctx.map("shr", &[packed, shift])?;
        codes.push(ctx.map("bit_and", &[code, mask])?);
    }
    let codes = ctx.build(|builder| builder.concat(&codes, 3))?;
    let dims = [rows, blocks, bytes.saturating_mul(per_byte)].map(|size| ctx.size(size));
    let codes = ctx.reshape(codes, &dims)?;
    let codes = ctx.narrow(codes, 2, 0, size)?;
    ctx.cast(codes, DType::F32)
}
