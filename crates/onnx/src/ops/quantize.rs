//! Quantised integers: with a scale and a zero point, quantising is arithmetic.
//!
//! There is one scale and zero point for the tensor, one per entry of an axis, or (from version 21) one per block of an
//! axis.

use kiln_ir::{Dims, ReduceFunction, ValueId};
use kiln_tensor::DType;
use smallvec::smallvec;

use super::cast::{dtype_attribute, element_of};
use super::conv::{along_axis, integer_convolution};
use super::matmul::integer_product;
use super::narrow::{RoundMode, rounded};
use super::support::{Imported, one, operator, several};
use crate::import::{Item, Operator, Takes};
use crate::{ElementType, Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("DequantizeLinear", &[10], dequantize_linear).taking(Takes::Narrow),
    operator("DynamicQuantizeLinear", &[11], dynamic_quantize_linear),
    operator("QLinearConv", &[10], qlinear_conv),
    operator("QLinearMatMul", &[10], qlinear_matmul),
    operator("QuantizeLinear", &[10], quantize_linear).taking(Takes::Narrow),
];

/// `saturate(round(x / scale) + zero_point)`.
pub(super) fn quantize_linear(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, scale) = (ctx.input(0)?, ctx.input(1)?);
    let zero_point = ctx.optional(2);
    let to = match ctx.attributes().get::<i64>("output_dtype")? {
        None | Some(0) => match (zero_point, ctx.narrow_type(2)) {
            (_, Some(narrow)) => ElementType::Narrow(narrow),
            (Some(value), None) => ElementType::Supported(ctx.dtype(value)?),
            (None, None) => ElementType::Supported(DType::U8),
        },
        Some(number) => element_of(number),
    };
    let wide = ctx.dtype(scale)?;
    let wide = dtype_attribute(ctx, "precision", wide)?;
    let x = ctx.cast(x, wide)?;
    let scale = ctx.cast(scale, wide)?;
    let scale = laid_out(ctx, scale, x)?;
    let zero_point = zero_point
        .map(|value| laid_out(ctx, value, x))
        .transpose()?;
    let to = match to {
        ElementType::Narrow(narrow) if narrow.float_format().is_some() => {
            let mut y = ctx.div(x, scale)?;
            if let Some(zero_point) = zero_point {
                let zero_point = ctx.cast(zero_point, wide)?;
                y = ctx.add(y, zero_point)?;
            }
            let saturate = ctx.flag("saturate", true)?;
            let y = rounded(ctx, y, narrow, saturate, RoundMode::Nearest)?;
            return Ok(smallvec![Item::Narrow(y, narrow)]);
        }
        to => to,
    };
    let Some(dtype) = to.dtype() else {
        return Err(ctx.unsupported(format!("quantising to {to}")));
    };
    let bits = match to {
        ElementType::Narrow(narrow) => narrow.bits(),
        _ => dtype.bits(),
    };
    let y = quantized(ctx, x, scale, zero_point, (dtype, bits))?;
    match to {
        ElementType::Narrow(narrow) => Ok(smallvec![Item::Narrow(y, narrow)]),
        _ => one(y),
    }
}

/// `(x - zero_point) * scale`.
pub(super) fn dequantize_linear(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, scale) = (ctx.input(0)?, ctx.input(1)?);
    let own = ctx.dtype(scale)?;
    let out = dtype_attribute(ctx, "output_dtype", own)?;
    // 8-bit floats need no intermediate integer.
    let between = if ctx.dtype(x)?.is_float() {
        own
    } else {
        DType::I32
    };
    let mut wide = ctx.cast(x, between)?;
    if let Some(zero_point) = ctx.optional(2) {
        let zero_point = ctx.cast(zero_point, between)?;
        let zero_point = laid_out(ctx, zero_point, x)?;
        wide = ctx.sub(wide, zero_point)?;
    }
    let scale = laid_out(ctx, scale, x)?;
    let wide = ctx.cast(wide, own)?;
    let y = ctx.mul(wide, scale)?;
    one(ctx.cast(y, out)?)
}

/// A parameter shaped to broadcast against `x`: unchanged, along an axis, or repeated in blocks.
fn laid_out(ctx: &mut NodeContext<'_>, value: ValueId, x: ValueId) -> Result<ValueId, Error> {
    let rank = ctx.rank(x)?;
    let parameter_rank = ctx.rank(value)?;
    if parameter_rank == 0 || rank == 0 {
        return ctx.as_scalar(value);
    }
    let block = ctx.attributes().get_or("block_size", 0_i64)?;
    if block == 0 && parameter_rank == 1 {
        // One element for the whole tensor needs no axis, which may not even exist.
        let length = ctx.shape(value)?[0];
        if ctx.known(length) == Some(1) {
            return ctx.as_scalar(value);
        }
        let axis = ctx.axis_attribute(1, rank)?;
        return along_axis(ctx, value, axis, x);
    }
    if block < 1 || parameter_rank != rank {
        return Err(ctx.attribute_error("block_size", "blocks along one axis", block));
    }
    let axis = ctx.axis_attribute(1, rank)?;
    let dims = ctx.shape(x)?;
    let own = ctx.shape(value)?;
    let (mut split, mut repeated, mut merged) = (Dims::new(), Dims::new(), own.clone());
    for (position, &dim) in own.iter().enumerate() {
        split.push(dim);
        repeated.push(dim);
        if position == axis {
            split.push(ctx.size(1));
            repeated.push(ctx.size(block));
        }
    }
    merged[axis] = ctx.sizes(|table| {
        let block = table.constant(block);
        table.mul(own[axis], block)
    })?;
    let zero = ctx.size(0);
    ctx.build(|builder| {
        let split = builder.reshape(value, &split)?;
        let repeated = builder.broadcast_to(split, &repeated)?;
        let merged = builder.reshape(repeated, &merged)?;
        // The last block may be partial.
        builder.slice_axis(merged, axis, zero, dims[axis])
    })
}

/// Quantises with parameters that broadcast, to `bits` bits of a dtype.
pub(super) fn quantized(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    scale: ValueId,
    zero_point: Option<ValueId>,
    to: (DType, u32),
) -> Result<ValueId, Error> {
    let quotient = ctx.div(x, scale)?;
    rounded_to_steps(ctx, quotient, zero_point, to)
}

/// Numbers of steps, rounded and shifted by the zero point, to `bits` bits of a dtype.
pub(super) fn rounded_to_steps(
    ctx: &mut NodeContext<'_>,
    steps: ValueId,
    zero_point: Option<ValueId>,
    (to, bits): (DType, u32),
) -> Result<ValueId, Error> {
    if !to.is_integer() || bits > 16 {
        return Err(ctx.unsupported(format!("quantising to {to}")));
    }
    let (low, high) = bounds(to, bits);
    let rounded = ctx.map("round_even", &[steps])?;
    // f32 represents every sum of such a number and a zero point, unless it saturates anyway.
    let mut rounded = ctx.cast(rounded, DType::F32)?;
    if let Some(zero_point) = zero_point {
        let zero_point = ctx.cast(zero_point, DType::F32)?;
        rounded = ctx.add(rounded, zero_point)?;
    }
    let (low, high) = (
        ctx.scalar_like(rounded, low)?,
        ctx.scalar_like(rounded, high)?,
    );
    // NaN becomes the minimum value, as everywhere; ONNX does not define it.
    let is_above = ctx.map("gt", &[rounded, low])?;
    let capped = ctx.map("min", &[rounded, high])?;
    let clipped = ctx.map("select", &[is_above, capped, low])?;
    ctx.cast(clipped, to)
}

fn bounds(dtype: DType, bits: u32) -> (f64, f64) {
    let span = 2_f64.powi(i32::try_from(bits).unwrap_or(0));
    if dtype.is_signed() {
        (-span / 2.0, span / 2.0 - 1.0)
    } else {
        (0.0, span - 1.0)
    }
}

/// To u8, with scale and zero point from the operand's range, extended to contain 0.
fn dynamic_quantize_linear(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let (y, scale, zero_point) = dynamically_quantized(ctx, x)?;
    several([y, scale, zero_point])
}

/// The quantised tensor, its scale and its zero point.
pub(super) fn dynamically_quantized(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
) -> Result<(ValueId, ValueId, ValueId), Error> {
    let axes: Vec<usize> = (0..ctx.rank(x)?).collect();
    let (zero, most) = (ctx.scalar_like(x, 0.0)?, ctx.scalar_like(x, 255.0)?);
    let low = ctx.reduce(ReduceFunction::Min, x, &axes, false)?;
    let low = ctx.map("min", &[low, zero])?;
    let high = ctx.reduce(ReduceFunction::Max, x, &axes, false)?;
    let high = ctx.map("max", &[high, zero])?;
    let span = ctx.sub(high, low)?;
    let scale = ctx.div(span, most)?;
    let below = ctx.sub(zero, low)?;
    let zero_point = ctx.div(below, scale)?;
    let zero_point = ctx.map("clip", &[zero_point, zero, most])?;
    let zero_point = ctx.map("round_even", &[zero_point])?;
    let zero_point = ctx.cast(zero_point, DType::U8)?;
    let y = quantized(ctx, x, scale, Some(zero_point), (DType::U8, 8))?;
    Ok((y, scale, zero_point))
}

/// Operands `a, scale, zero, b, scale, zero, y scale, y zero`.
fn qlinear_matmul(ctx: &mut NodeContext<'_>) -> Imported {
    let (a, b) = (ctx.input(0)?, ctx.input(3)?);
    let (rows, columns) = (
        ctx.rank(a)?.saturating_sub(2),
        ctx.rank(b)?.saturating_sub(1),
    );
    let sum = integer_product(ctx, a, b, (ctx.optional(2), ctx.optional(5)))?;
    let a_scale = ctx.input(1)?;
    let a_scale = along_axis(ctx, a_scale, rows, a)?;
    let b_scale = ctx.input(4)?;
    let b_scale = along_axis(ctx, b_scale, columns, b)?;
    requantized(ctx, sum, a_scale, b_scale, (6, 7))
}

/// Operands `x, scale, zero, w, scale, zero, y scale, y zero, bias`.
fn qlinear_conv(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(3)?);
    let zero_points = (ctx.optional(2), ctx.optional(5));
    let mut sum = integer_convolution(ctx, [x, weights], zero_points)?;
    if let Some(bias) = ctx.optional(8) {
        sum = ctx.build(|builder| builder.add_channel_bias(sum, bias))?;
    }
    let (x_scale, w_scale) = (ctx.input(1)?, ctx.input(4)?);
    let x_scale = ctx.as_scalar(x_scale)?;
    let w_scale = along_axis(ctx, w_scale, 1, sum)?;
    requantized(ctx, sum, x_scale, w_scale, (6, 7))
}

/// Sums of products quantised with the scale and zero point at two operands. The scales are combined into one factor first,
/// as in the reference evaluator: a sum is rounded once before it is rounded to a step.
fn requantized(
    ctx: &mut NodeContext<'_>,
    sum: ValueId,
    left_scale: ValueId,
    right_scale: ValueId,
    (scale, zero_point): (usize, usize),
) -> Imported {
    let (scale, zero_point) = (ctx.input(scale)?, ctx.input(zero_point)?);
    let to = ctx.dtype(zero_point)?;
    let wide = ctx.cast(sum, DType::F32)?;
    let rank = ctx.rank(wide)?;
    let rows = rank.saturating_sub(2);
    let scale = along_axis(ctx, scale, rows, wide)?;
    let zero_point = along_axis(ctx, zero_point, rows, wide)?;
    let mut scales = [left_scale, right_scale, scale];
    for scale in &mut scales {
        *scale = ctx.cast(*scale, DType::F32)?;
    }
    let factor = ctx.mul(scales[0], scales[1])?;
    let factor = ctx.div(factor, scales[2])?;
    let steps = ctx.mul(wide, factor)?;
    let zero_point = Some(zero_point);
    one(rounded_to_steps(ctx, steps, zero_point, (to, to.bits()))?)
}
