//! Norms with their prologues: skip connections, biases, embeddings.

use kiln_ir::ValueId;
use kiln_tensor::{DType, Tensor};
use smallvec::smallvec;

use super::super::support::{Imported, one, operator, several};
use crate::import::{Item, Operator};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("EmbedLayerNormalization", &[1], embed),
    operator("LayerNormalization", &[1], |ctx| plain(ctx, false)),
    operator("SimplifiedLayerNormalization", &[1], |ctx| plain(ctx, true)),
    operator("SkipLayerNormalization", &[1], |ctx| skip(ctx, false)),
    operator("SkipSimplifiedLayerNormalization", &[1], |ctx| {
        skip(ctx, true)
    }),
];

fn epsilon(ctx: &NodeContext<'_>, default: f32) -> Result<f64, Error> {
    Ok(f64::from(ctx.attributes().get_or("epsilon", default)?))
}

/// The norm over axes from `axis` on, computed in f32 at least.
fn normed(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axis: usize,
    (scale, bias): (ValueId, Option<ValueId>),
    (epsilon, simple): (f64, bool),
) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(x)?;
    let wide = if dtype == DType::F64 {
        dtype
    } else {
        DType::F32
    };
    let x = ctx.cast(x, wide)?;
    let scale = ctx.cast(scale, wide)?;
    let bias = bias.map(|bias| ctx.cast(bias, wide)).transpose()?;
    let y = ctx.build(|builder| {
        if simple {
            builder.rms_norm(x, axis, Some(scale), epsilon)
        } else {
            builder.layer_norm(x, axis, Some(scale), bias, epsilon)
        }
    })?;
    ctx.cast(y, dtype)
}

pub(in crate::ops) fn plain(ctx: &mut NodeContext<'_>, simple: bool) -> Imported {
    let (x, scale) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(-1, rank)?;
    let epsilon = epsilon(ctx, 1e-5)?;
    let bias = if simple { None } else { ctx.optional(2) };
    one(normed(ctx, x, axis, (scale, bias), (epsilon, simple))?)
}

/// `norm(x + skip + bias)`; the sum is the fourth result.
fn skip(ctx: &mut NodeContext<'_>, simple: bool) -> Imported {
    let (x, skip, scale) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let (shift, bias) = if simple {
        (None, ctx.optional(3))
    } else {
        (ctx.optional(3), ctx.optional(4))
    };
    let epsilon = epsilon(ctx, 1e-12)?;
    let mut sum = ctx.add(x, skip)?;
    if let Some(bias) = bias {
        sum = ctx.add(sum, bias)?;
    }
    let last = ctx.rank(sum)?.saturating_sub(1);
    let y = normed(ctx, sum, last, (scale, shift), (epsilon, simple))?;
    if !(1..4).any(|index| ctx.wants_output(index)) {
        return one(y);
    }
    for index in [1, 2] {
        if ctx.wants_output(index) {
            return Err(ctx.unsupported("the mean or deviation of a norm as a result"));
        }
    }
    // The two results in between are unused.
    several([y, y, y, sum])
}

/// Looks up, adds and normalises words, positions and optional segments; and counts the words of a mask.
fn embed(ctx: &mut NodeContext<'_>) -> Imported {
    let (words, segments) = (ctx.input(0)?, ctx.optional(1));
    let (table, positions) = (ctx.input(2)?, ctx.input(3)?);
    let (scale, shift) = (ctx.input(5)?, ctx.input(6)?);
    let [batch, sequence] = ctx.dims_of_rank::<2>(0, words)?;
    let epsilon = epsilon(ctx, 1e-12)?;
    let unit = ctx.size(1);
    let mut sum = ctx.build(|builder| builder.gather(table, words, 0))?;
    let position = match ctx.optional(8) {
        Some(position) => position,
        None => ctx.positions(DType::I64, &[unit, sequence], 1)?,
    };
    let at = ctx.build(|builder| builder.gather(positions, position, 0))?;
    sum = ctx.add(sum, at)?;
    if let (Some(segments), Some(table)) = (segments, ctx.optional(4)) {
        let segment = ctx.build(|builder| builder.gather(table, segments, 0))?;
        sum = ctx.add(sum, segment)?;
    }
    let y = normed(ctx, sum, 2, (scale, Some(shift)), (epsilon, false))?;
    let count = match ctx.optional(7) {
        Some(mask) => {
            let mask = ctx.cast(mask, DType::I32)?;
            ctx.reduce(kiln_ir::ReduceFunction::Sum, mask, &[1], false)?
        }
        None => {
            let zero = ctx.add_constant(Tensor::scalar(0_i32))?;
            ctx.broadcast(zero, &[batch])?
        }
    };
    Ok(smallvec![
        Item::Tensor(y),
        Item::Tensor(count),
        Item::Tensor(sum)
    ])
}
