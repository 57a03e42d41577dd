//! Fused attention operators of exporters: with projections, biases, masks, and caches of keys and values.

use kiln_ir::ValueId;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::smallvec;

use super::super::attention::merge_heads;
use super::super::support::{Imported, one, operator};
use crate::import::{Item, Operator};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Attention", &[1], attention),
    operator("MultiHeadAttention", &[1], multi_head_attention),
];

/// A positive attribute.
pub(super) fn count(ctx: &NodeContext<'_>, name: &str) -> Result<i64, Error> {
    let count = ctx.attributes().require::<i64>(name)?;
    if count < 1 {
        return Err(ctx.attribute_error(name, "at least 1", count));
    }
    Ok(count)
}

/// `[batch, sequence, heads * size] -> [batch, heads, sequence, size]`.
pub(super) fn split(
    ctx: &mut NodeContext<'_>,
    value: ValueId,
    heads: i64,
) -> Result<ValueId, Error> {
    let [batch, sequence, hidden] = ctx.dims_of_rank::<3>(0, value)?;
    let dims = ctx.sizes(|table| {
        let heads = table.constant(heads);
        Ok([batch, sequence, heads, table.floor_div(hidden, heads)?])
    })?;
    let split = ctx.reshape(value, &dims)?;
    ctx.transpose(split, &[0, 2, 1, 3])
}

/// `softmax(query * key * scale + bias) * value`, heads merged; queries of rank 4.
fn attended(
    ctx: &mut NodeContext<'_>,
    [query, key, value]: [ValueId; 3],
    bias: Option<ValueId>,
) -> Result<ValueId, Error> {
    let size = ctx.shape(query)?[3];
    let dtype = ctx.dtype(query)?;
    let scale = match ctx.attributes().get_or("scale", 0.0_f32)? {
        0.0 => {
            let size = ctx.dim_as(size, DType::F32)?;
            let scale = ctx.map("rsqrt", &[size])?;
            ctx.cast(scale, dtype)?
        }
        scale => ctx.scalar(dtype, f64::from(scale))?,
    };
    let key = ctx.transpose(key, &[0, 1, 3, 2])?;
    let scores = ctx.matmul(query, key)?;
    let mut scores = ctx.mul(scores, scale)?;
    let softcap = f64::from(ctx.attributes().get_or("softcap", 0.0_f32)?);
    if softcap > 0.0 {
        let part = ctx.scaled(scores, 1.0 / softcap)?;
        let curve = ctx.map("tanh", &[part])?;
        scores = ctx.scaled(curve, softcap)?;
    }
    if let Some(bias) = bias {
        let bias = ctx.cast(bias, dtype)?;
        scores = ctx.add(scores, bias)?;
    }
    let weights = ctx.build(|builder| builder.softmax(scores, 3))?;
    let y = ctx.matmul(weights, value)?;
    merge_heads(ctx, y)
}

/// The term added to masked scores.
fn filter(ctx: &NodeContext<'_>) -> Result<f64, Error> {
    Ok(f64::from(
        ctx.attributes()
            .get_or("mask_filter_value", -10_000.0_f32)?,
    ))
}

/// A mask as a term added to scores `[batch, heads, queries, keys]`: of 0 and 1 per key, per query and key, or with an axis
/// for heads; or the number of keys of each sample.
fn mask_bias(
    ctx: &mut NodeContext<'_>,
    mask: ValueId,
    (batch, queries, keys): (DimId, DimId, DimId),
) -> Result<ValueId, Error> {
    let unit = ctx.size(1);
    let zero = ctx.integer(0)?;
    let wide = ctx.cast(mask, DType::I64)?;
    let allowed = match ctx.rank(mask)? {
        1 => {
            let lengths = ctx.reshape(wide, &[batch, unit, unit, unit])?;
            let key = ctx.positions(DType::I64, &[unit, unit, unit, keys], 3)?;
            ctx.map("lt", &[key, lengths])?
        }
        2 => {
            let per_key = ctx.reshape(wide, &[batch, unit, unit, keys])?;
            ctx.map("ne", &[per_key, zero])?
        }
        3 => {
            let per_query = ctx.reshape(wide, &[batch, unit, queries, keys])?;
            ctx.map("ne", &[per_query, zero])?
        }
        _ => {
            let found = ctx.builder().describe(mask);
            return Err(ctx.unsupported(format!("a mask such as {found}")));
        }
    };
    let (none, never) = (
        ctx.scalar(DType::F32, 0.0)?,
        ctx.scalar(DType::F32, filter(ctx)?)?,
    );
    ctx.select(allowed, none, never)
}

/// Minus infinity where a key comes after its query; the last query sees every key.
fn causal_bias(
    ctx: &mut NodeContext<'_>,
    queries: DimId,
    keys: DimId,
    never: f64,
) -> Result<ValueId, Error> {
    let unit = ctx.size(1);
    let query = ctx.positions(DType::I64, &[queries, unit], 0)?;
    let key = ctx.positions(DType::I64, &[unit, keys], 1)?;
    let before = ctx.sizes(|table| table.sub(keys, queries))?;
    let before = ctx.dim_as_data(before)?;
    let query = ctx.add(query, before)?;
    let allowed = ctx.map("le", &[key, query])?;
    let (none, never) = (ctx.scalar(DType::F32, 0.0)?, ctx.scalar(DType::F32, never)?);
    ctx.select(allowed, none, never)
}

fn joined(
    ctx: &mut NodeContext<'_>,
    one: Option<ValueId>,
    other: Option<ValueId>,
) -> Result<Option<ValueId>, Error> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let other = ctx.cast(other, ctx.dtype(one)?)?;
            Ok(Some(ctx.add(one, other)?))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// `x: [batch, sequence, in]` times `weights: [in, 3 * hidden]` gives queries, keys and values. Operands `x, weights,
/// bias, mask, past: [2, batch, heads, past, size], attention bias`.
fn attention(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(1)?);
    let heads = count(ctx, "num_heads")?;
    if ctx.flag("do_rotary", false)? {
        return Err(ctx.unsupported("rotation inside of attention"));
    }
    let [batch, sequence, _] = ctx.dims_of_rank::<3>(0, x)?;
    let mut mixed = ctx.matmul(x, weights)?;
    if let Some(bias) = ctx.optional(2) {
        mixed = ctx.add(mixed, bias)?;
    }
    let hidden = ctx.shape(mixed)?[2];
    let sizes: Vec<DimId> = match ctx.attributes().get::<&[i64]>("qkv_hidden_sizes")? {
        Some(sizes) if sizes.len() == 3 => sizes.iter().map(|&size| ctx.size(size)).collect(),
        Some(sizes) => {
            return Err(ctx.attribute_error("qkv_hidden_sizes", "3 sizes", sizes.len()));
        }
        None => {
            let three = ctx.size(3);
            let part = ctx.sizes(|table| table.floor_div(hidden, three))?;
            vec![part; 3]
        }
    };
    let parts = ctx.build(|builder| builder.split(mixed, 2, &sizes))?;
    let query = split(ctx, parts[0], heads)?;
    let mut key = split(ctx, parts[1], heads)?;
    let mut value = split(ctx, parts[2], heads)?;
    if let Some(past) = ctx.optional(4) {
        let (past_key, past_value) = (ctx.entry(past, 0, 0)?, ctx.entry(past, 0, 1)?);
        key = ctx.build(|builder| builder.concat(&[past_key, key], 2))?;
        value = ctx.build(|builder| builder.concat(&[past_value, value], 2))?;
    }
    let keys = ctx.shape(key)?[2];
    let mut bias = match ctx.optional(3) {
        Some(mask) => Some(mask_bias(ctx, mask, (batch, sequence, keys))?),
        None => None,
    };
    if ctx.flag("unidirectional", false)? {
        let never = filter(ctx)?;
        let causal = causal_bias(ctx, sequence, keys, never)?;
        bias = joined(ctx, bias, Some(causal))?;
    }
    let bias = joined(ctx, bias, ctx.optional(5))?;
    let y = attended(ctx, [query, key, value], bias)?;
    if !ctx.wants_output(1) {
        return one(y);
    }
    let present = ctx.build(|builder| builder.stack(&[key, value], 0))?;
    Ok(smallvec![Item::Tensor(y), Item::Tensor(present)])
}

/// The operands that multi-head attention multiplies: separate, or keys and values packed as `[batch, keys, heads, 2,
/// size]`, or all three as `[batch, sequence, heads, 3, size]`.
fn unpacked(ctx: &mut NodeContext<'_>) -> Result<Vec<ValueId>, Error> {
    let query = ctx.input(0)?;
    let (packed, count) = match (ctx.optional(1), ctx.optional(2)) {
        (Some(key), Some(value)) => return Ok(vec![query, key, value]),
        (Some(packed), None) => (packed, 2),
        _ => (query, 3),
    };
    let [batch, sequence, heads, _, size] =
        ctx.dims_of_rank::<5>(usize::from(count == 2), packed)?;
    let hidden = ctx.product(&[heads, size])?;
    let mut parts = if count == 2 { vec![query] } else { Vec::new() };
    for index in 0..count {
        let part = ctx.entry(packed, 3, index)?;
        parts.push(ctx.reshape(part, &[batch, sequence, hidden])?);
    }
    Ok(parts)
}

/// Operands `query, key, value, bias, key mask, attention bias, past key, past value`.
fn multi_head_attention(ctx: &mut NodeContext<'_>) -> Imported {
    let heads = count(ctx, "num_heads")?;
    for index in 8..ctx.n_inputs() {
        if ctx.optional(index).is_some() {
            return Err(ctx.unsupported(format!("operand {index} of multi-head attention")));
        }
    }
    let mut parts = unpacked(ctx)?;
    if let Some(bias) = ctx.optional(3) {
        let mut sizes = Vec::with_capacity(3);
        for &part in &parts {
            sizes.push(match ctx.rank(part)? {
                3 => ctx.shape(part)?[2],
                _ => return Err(ctx.unsupported("a bias for keys that are split already")),
            });
        }
        let biases = ctx.build(|builder| builder.split(bias, 0, &sizes))?;
        for (part, bias) in parts.iter_mut().zip(biases) {
            *part = ctx.add(*part, bias)?;
        }
    }
    let mut split_parts = Vec::with_capacity(3);
    for part in parts {
        // Keys and values may come as [batch, heads, sequence, size].
        split_parts.push(match ctx.rank(part)? {
            3 => split(ctx, part, heads)?,
            _ => part,
        });
    }
    let &[query, mut key, mut value] = split_parts.as_slice() else {
        unreachable!("three parts are split");
    };
    for (index, part) in [(6, &mut key), (7, &mut value)] {
        if let Some(past) = ctx.optional(index) {
            *part = ctx.build(|builder| builder.concat(&[past, *part], 2))?;
        }
    }
    let dims = ctx.shape(query)?;
    let keys = ctx.shape(key)?[2];
    let mut bias = match ctx.optional(4) {
        Some(mask) => Some(mask_bias(ctx, mask, (dims[0], dims[2], keys))?),
        None => None,
    };
    if ctx.flag("unidirectional", false)? {
        let never = filter(ctx)?;
        let causal = causal_bias(ctx, dims[2], keys, never)?;
        bias = joined(ctx, bias, Some(causal))?;
    }
    let bias = joined(ctx, bias, ctx.optional(5))?;
    let y = attended(ctx, [query, key, value], bias)?;
    if !ctx.wants_output(1) && !ctx.wants_output(2) {
        return one(y);
    }
    Ok(smallvec![
        Item::Tensor(y),
        Item::Tensor(key),
        Item::Tensor(value)
    ])
}
