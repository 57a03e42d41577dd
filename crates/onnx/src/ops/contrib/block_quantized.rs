//! Rows of quantised tables: gathered as codes, then dequantised.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::super::support::{Imported, one, operator};
use crate::import::{Operator, Takes};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] =
    &[operator("GatherBlockQuantized", &[1], gather).taking(Takes::Narrow)];

/// Operands `data, indices, scales, zero points`: one scale, and one zero point, per block along `quantize_axis`. Codes
/// of 4 bits have a type of 4 bits, or are packed in bytes along the last axis, the first in the low bits.
fn gather(ctx: &mut NodeContext<'_>) -> Imported {
    let (data, indices, scales) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let rank = ctx.rank(data)?;
    let axis_of = |ctx: &NodeContext<'_>, name, default| {
        let axis = ctx.attributes().get_or(name, default)?;
        ctx.axis(axis, rank)
    };
    let from = axis_of(ctx, "gather_axis", 0_i64)?;
    let along = axis_of(ctx, "quantize_axis", 1_i64)?;
    let block = ctx.attributes().get_or("block_size", 128_i64)?;
    let bits = ctx.attributes().get_or("bits", 4_i64)?;
    if from == along {
        let found = format!("{along}, the gathered axis");
        return Err(ctx.attribute_error("quantize_axis", "another axis than is gathered", found));
    }
    if block < 1 || ![4, 8].contains(&bits) {
        let found = format!("blocks of {block} of {bits} bits");
        return Err(ctx.attribute_error("block_size", "blocks of codes of 4 or 8 bits", found));
    }
    let is_packed = ctx.dtype(data)? == DType::U8 && ctx.narrow_type(0).is_none() && bits == 4;
    if is_packed && along + 1 != rank {
        return Err(ctx.unsupported("packed codes with blocks along another axis than the last"));
    }
    // After the lookup the quantised axis is further back, by the axes of the indices.
    let along = match from < along {
        true => along + ctx.rank(indices)? - 1,
        false => along,
    };
    let codes = looked_up(ctx, data, indices, (from, is_packed))?;
    let own = ctx.shape(codes)?[along];
    let per_block = |ctx: &mut NodeContext<'_>, value: ValueId| {
        let position = ctx.positions(DType::I64, &[own], 0)?;
        let size = ctx.integer(block)?;
        let position = ctx.map("div", &[position, size])?;
        ctx.build(|builder| builder.gather(value, position, along))
    };
    let dtype = ctx.dtype(scales)?;
    let scales = ctx.cast(scales, DType::F32)?;
    let scales = looked_up(ctx, scales, indices, (from, false))?;
    let scales = per_block(ctx, scales)?;
    let zero_points = match ctx.optional(3) {
        Some(zero_points) => {
            let is_packed = is_packed && ctx.narrow_type(3).is_none();
            let zero_points = looked_up(ctx, zero_points, indices, (from, is_packed))?;
            let zero_points = per_block(ctx, zero_points)?;
            ctx.cast(zero_points, DType::F32)?
        }
        None if ctx.dtype(data)? == DType::U8 && ctx.narrow_type(0).is_none() => {
            ctx.scalar(DType::F32, 2_f64.powi(bits as i32 - 1))?
        }
        None => ctx.scalar(DType::F32, 0.0)?,
    };
    let codes = ctx.cast(codes, DType::F32)?;
    let centred = ctx.sub(codes, zero_points)?;
    let y = ctx.mul(centred, scales)?;
    one(ctx.cast(y, dtype)?)
}

/// Entries of `table` along `from`, with the codes of packed bytes unpacked along the last axis.
fn looked_up(
    ctx: &mut NodeContext<'_>,
    table: ValueId,
    indices: ValueId,
    (from, is_packed): (usize, bool),
) -> Result<ValueId, Error> {
    let rows = ctx.build(|builder| builder.gather(table, indices, from))?;
    if !is_packed {
        return Ok(rows);
    }
    let (mask, four) = (ctx.scalar(DType::U8, 15.0)?, ctx.scalar(DType::U8, 4.0)?);
    let low = ctx.map("bit_and", &[rows, mask])?;
    let high = ctx.map("shr", &[rows, four])?;
    let mut dims = ctx.shape(rows)?;
    let last = dims.len();
    let pairs = ctx.build(|builder| builder.stack(&[low, high], last))?;
    let two = ctx.size(2);
    if let Some(bytes) = dims.last_mut() {
        *bytes = ctx.product(&[*bytes, two])?;
    }
    ctx.reshape(pairs, &dims)
}
