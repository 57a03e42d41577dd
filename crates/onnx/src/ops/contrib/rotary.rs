//! Rotary positions: pairs of features rotated by angles from tables.

use kiln_ir::{Dims, ValueId};
use kiln_tensor::DType;

use super::super::attention::merge_heads;
use super::super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("RotaryEmbedding", &[1], rotary_embedding)];

/// Pairs of features of `x: [batch, heads, sequence, size]` rotated by the angles whose cosines and sines
/// `[.., sequence, half]` are given; features beyond twice `half` are unchanged.
pub(super) fn turned(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    (cosines, sines): (ValueId, ValueId),
    interleaved: bool,
) -> Result<ValueId, Error> {
    let dims = ctx.shape(x)?;
    let &[batch, heads, sequence, size] = dims.as_slice() else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 4", found));
    };
    let half = match ctx.shape(cosines)?.last() {
        Some(&half) => half,
        None => return Err(ctx.operand_error(7, "a matrix", "a scalar")),
    };
    let two = ctx.size(2);
    let (zero, both, rest) = ctx.sizes(|table| {
        let both = table.mul(half, two)?;
        Ok((table.constant(0), both, table.sub(size, both)?))
    })?;
    let part = ctx.build(|builder| builder.slice_axis(x, 3, zero, both))?;
    let (first, second) = if interleaved {
        let pairs: Dims = [batch, heads, sequence, half, two].into_iter().collect();
        let pairs = ctx.reshape(part, &pairs)?;
        (ctx.entry(pairs, 4, 0)?, ctx.entry(pairs, 4, 1)?)
    } else {
        ctx.build(|builder| {
            Ok((
                builder.slice_axis(part, 3, zero, half)?,
                builder.slice_axis(part, 3, half, half)?,
            ))
        })?
    };
    let (a, b) = (ctx.mul(cosines, first)?, ctx.mul(sines, second)?);
    let real = ctx.sub(a, b)?;
    let (a, b) = (ctx.mul(sines, first)?, ctx.mul(cosines, second)?);
    let imaginary = ctx.add(a, b)?;
    let joined = if interleaved {
        let pairs = ctx.build(|builder| builder.stack(&[real, imaginary], 4))?;
        ctx.reshape(pairs, &[batch, heads, sequence, both])?
    } else {
        ctx.build(|builder| builder.concat(&[real, imaginary], 3))?
    };
    ctx.build(|builder| {
        let kept = builder.slice_axis(x, 3, both, rest)?;
        builder.concat(&[joined, kept], 3)
    })
}

/// `x: [batch, sequence, hidden] or [batch, heads, sequence, size]`, positions `[1]` (of the first) or
/// `[batch, sequence]`, tables of cosines and sines.
fn rotary_embedding(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, position) = (ctx.input(0)?, ctx.input(1)?);
    if ctx.flag("is_packed_batching", false)? {
        return Err(ctx.unsupported("samples packed one after another"));
    }
    let (cosines, sines) = (ctx.input(2)?, ctx.input(3)?);
    let own = ctx.shape(x)?;
    let half = ctx.dims_of_rank::<2>(2, cosines)?[1];
    let heads = if own.len() == 4 {
        x
    } else {
        let [batch, sequence, hidden] = ctx.dims_of_rank::<3>(0, x)?;
        let size = match ctx.attributes().get_or("num_heads", 0_i64)? {
            0 => ctx.sizes(|table| {
                let two = table.constant(2);
                table.mul(half, two)
            })?,
            heads => ctx.sizes(|table| {
                let heads = table.constant(heads);
                table.floor_div(hidden, heads)
            })?,
        };
        let count = ctx.sizes(|table| table.floor_div(hidden, size))?;
        let split = ctx.reshape(x, &[batch, sequence, count, size])?;
        ctx.transpose(split, &[0, 2, 1, 3])?
    };
    let dims = ctx.shape(heads)?;
    let (batch, sequence) = (dims[0], dims[2]);
    let unit = ctx.size(1);
    let position = ctx.cast(position, DType::I64)?;
    let position = if ctx.rank(position)? == 2 {
        position
    } else {
        let first = ctx.as_scalar(position)?;
        let step = ctx.positions(DType::I64, &[unit, sequence], 1)?;
        ctx.add(step, first)?
    };
    let samples = if ctx.shape(position)?[0] == unit {
        unit
    } else {
        batch
    };
    let mut rows = Vec::with_capacity(2);
    for table in [cosines, sines] {
        let row = ctx.build(|builder| builder.gather(table, position, 0))?;
        rows.push(ctx.reshape(row, &[samples, unit, sequence, half])?);
    }
    let interleaved = ctx.flag("interleaved", false)?;
    let y = turned(ctx, heads, (rows[0], rows[1]), interleaved)?;
    if own.len() == 4 {
        return one(y);
    }
    one(merge_heads(ctx, y)?)
}
