//! Rotary position embedding.

use kiln_ir::ValueId;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("RotaryEmbedding", &[23], rotary_embedding)];

/// Pairs of features rotated by an angle that grows with the position.
fn rotary_embedding(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let own = ctx.shape(x)?;
    // To [batch, sequence, heads, size].
    let heads = match *own.as_slice() {
        [_, _, _, _] => ctx.transpose(x, &[0, 2, 1, 3])?,
        [batch, sequence, hidden] => {
            let heads = ctx.attributes().require::<i64>("num_heads")?;
            if heads < 1 {
                return Err(ctx.attribute_error("num_heads", "at least 1", heads));
            }
            let dims = ctx.sizes(|table| {
                let heads = table.constant(heads);
                Ok([batch, sequence, heads, table.floor_div(hidden, heads)?])
            })?;
            ctx.reshape(x, &dims)?
        }
        _ => {
            let found = ctx.builder().describe(x);
            return Err(ctx.operand_error(0, "a tensor of rank 3 or 4", found));
        }
    };
    let dims = ctx.shape(heads)?;
    let size = dims[3];
    let turned = match ctx.attributes().get_or("rotary_embedding_dim", 0_i64)? {
        0 => size,
        turned => ctx.size(turned),
    };
    let (zero, half, rest) = ctx.sizes(|table| {
        let two = table.constant(2);
        Ok((
            table.constant(0),
            table.floor_div(turned, two)?,
            table.sub(size, turned)?,
        ))
    })?;
    let cosine = rotary_cache(ctx, 1)?;
    let sine = rotary_cache(ctx, 2)?;
    let interleaved = ctx.flag("interleaved", false)?;
    let two = ctx.size(2);
    let y = ctx.build(|builder| {
        let part = builder.slice_axis(heads, 3, zero, turned)?;
        let (first, second) = if interleaved {
            let pairs = builder.reshape(part, &[dims[0], dims[1], dims[2], half, two])?;
            let halves = builder.transpose(pairs, &[4, 0, 1, 2, 3])?;
            let one = builder.size(1);
            let first = builder.slice_axis(halves, 0, zero, one)?;
            let second = builder.slice_axis(halves, 0, one, one)?;
            (
                builder.squeeze(first, &[0])?,
                builder.squeeze(second, &[0])?,
            )
        } else {
            (
                builder.slice_axis(part, 3, zero, half)?,
                builder.slice_axis(part, 3, half, half)?,
            )
        };
        let (a, b) = (builder.mul(cosine, first)?, builder.mul(sine, second)?);
        let real = builder.sub(a, b)?;
        let (a, b) = (builder.mul(sine, first)?, builder.mul(cosine, second)?);
        let imaginary = builder.add(a, b)?;
        let joined = if interleaved {
            let pairs = builder.stack(&[real, imaginary], 4)?;
            builder.reshape(pairs, &[dims[0], dims[1], dims[2], turned])?
        } else {
            builder.concat(&[real, imaginary], 3)?
        };
        let kept = builder.slice_axis(heads, 3, turned, rest)?;
        builder.concat(&[joined, kept], 3)
    })?;
    match own.len() {
        4 => one(ctx.transpose(y, &[0, 2, 1, 3])?),
        _ => one(ctx.reshape(y, &own)?),
    }
}

/// Cosines or sines per position, `[batch, sequence, 1, half]`.
fn rotary_cache(ctx: &mut NodeContext<'_>, index: usize) -> Result<ValueId, Error> {
    let cache = ctx.input(index)?;
    let rows = match ctx.optional(3) {
        Some(positions) => ctx.build(|builder| builder.gather(cache, positions, 0))?,
        None => cache,
    };
    ctx.build(|builder| builder.unsqueeze(rows, &[2]))
}
