//! Attention over heads.
//!
//! Without a mask that could exclude every key of a query, attention is the plain pattern matmul, softmax, matmul; with
//! one, such queries give zeros, as the operator's specification requires.

use kiln_ir::{Dims, PadMode, ReduceFunction, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::cast::dtype_of;
use super::support::{Imported, operator, several};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("Attention", &[23], attention)];

/// Query, key and value as `[batch, heads, sequence, size]`.
struct Heads {
    query: ValueId,
    key: ValueId,
    value: ValueId,
    /// Whether operands and result have heads and sizes in one axis, `[batch, sequence, hidden]`.
    merged: bool,
}

impl Heads {
    fn read(ctx: &mut NodeContext<'_>) -> Result<Self, Error> {
        let (query, key, value) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        if ctx.rank(query)? == 4 {
            return Ok(Self {
                query,
                key,
                value,
                merged: false,
            });
        }
        let query_heads = ctx.attributes().require::<i64>("q_num_heads")?;
        let key_heads = ctx.attributes().require::<i64>("kv_num_heads")?;
        Ok(Self {
            query: split_heads(ctx, 0, query_heads)?,
            key: split_heads(ctx, 1, key_heads)?,
            value: split_heads(ctx, 2, key_heads)?,
            merged: true,
        })
    }
}

/// `[batch, sequence, hidden] -> [batch, heads, sequence, hidden / heads]`.
fn split_heads(ctx: &mut NodeContext<'_>, index: usize, heads: i64) -> Result<ValueId, Error> {
    let value = ctx.input(index)?;
    let &[batch, sequence, hidden] = ctx.shape(value)?.as_slice() else {
        let found = ctx.builder().describe(value);
        return Err(ctx.operand_error(index, "a tensor of rank 3 or 4", found));
    };
    if heads < 1 {
        return Err(ctx.attribute_error("num_heads", "at least 1", heads));
    }
    let dims = ctx.sizes(|table| {
        let heads = table.constant(heads);
        let size = table.floor_div(hidden, heads)?;
        Ok([batch, sequence, heads, size])
    })?;
    ctx.build(|builder| {
        let split = builder.reshape(value, &dims)?;
        builder.transpose(split, &[0, 2, 1, 3])
    })
}

/// `[batch, heads, sequence, size] -> [batch, sequence, heads * size]`.
pub(super) fn merge_heads(ctx: &mut NodeContext<'_>, value: ValueId) -> Result<ValueId, Error> {
    let moved = ctx.transpose(value, &[0, 2, 1, 3])?;
    let dims = ctx.shape(moved)?;
    let hidden = ctx.product(&dims[2..])?;
    ctx.reshape(moved, &[dims[0], dims[1], hidden])
}

fn attention(ctx: &mut NodeContext<'_>) -> Imported {
    let Heads {
        query,
        key,
        value,
        merged,
    } = Heads::read(ctx)?;
    let present_key = with_past(ctx, 4, key)?;
    let present_value = with_past(ctx, 5, value)?;
    let query_dims = ctx.shape(query)?;
    let key = repeat_heads(ctx, present_key, query_dims[1])?;
    let value = repeat_heads(ctx, present_value, query_dims[1])?;
    let raw = scores(ctx, query, key)?;
    let softcap = f64::from(ctx.attributes().get_or("softcap", 0.0_f32)?);
    let capped = if softcap > 0.0 {
        let scaled = ctx.scaled(raw, 1.0 / softcap)?;
        let curve = ctx.map("tanh", &[scaled])?;
        ctx.scaled(curve, softcap)?
    } else {
        raw
    };
    let bias = Bias::read(ctx, query, present_key)?;
    let biased = match bias.value {
        Some(bias) => ctx.add(capped, bias)?,
        None => capped,
    };
    let dtype = ctx.dtype(query)?;
    let precision = match ctx.attributes().get::<i64>("softmax_precision")? {
        Some(number) => dtype_of(ctx, number)?,
        None => dtype,
    };
    let wide = ctx.cast(biased, precision)?;
    let weights = if bias.may_mask_a_row {
        guarded_softmax(ctx, wide, bias.value)?
    } else {
        ctx.build(|builder| builder.softmax(wide, 3))?
    };
    let weights = ctx.cast(weights, dtype)?;
    let mut y = ctx.matmul(weights, value)?;
    if merged {
        y = merge_heads(ctx, y)?;
    }
    let shown = match ctx.attributes().get_or("qk_matmul_output_mode", 0_i64)? {
        0 => raw,
        1 => capped,
        2 => biased,
        3 => weights,
        mode => return Err(ctx.attribute_error("qk_matmul_output_mode", "0 to 3", mode)),
    };
    several([y, present_key, present_value, shown])
}

/// The past, if the node has it, concatenated with the new values along the sequence.
fn with_past(ctx: &mut NodeContext<'_>, index: usize, new: ValueId) -> Result<ValueId, Error> {
    match ctx.optional(index) {
        Some(past) => ctx.build(|builder| builder.concat(&[past, new], 2)),
        None => Ok(new),
    }
}

/// Each head repeated to match the number of query heads.
pub(super) fn repeat_heads(
    ctx: &mut NodeContext<'_>,
    value: ValueId,
    heads: DimId,
) -> Result<ValueId, Error> {
    let dims = ctx.shape(value)?;
    let &[batch, own, sequence, size] = dims.as_slice() else {
        let found = ctx.builder().describe(value);
        return Err(ctx.operand_error(1, "a tensor of rank 4", found));
    };
    if own == heads {
        return Ok(value);
    }
    let (one, times) = ctx.sizes(|table| Ok((table.constant(1), table.floor_div(heads, own)?)))?;
    ctx.build(|builder| {
        let split = builder.reshape(value, &[batch, own, one, sequence, size])?;
        let repeated = builder.broadcast_to(split, &[batch, own, times, sequence, size])?;
        builder.reshape(repeated, &[batch, heads, sequence, size])
    })
}

/// Queries times keys, scaled.
pub(super) fn scores(
    ctx: &mut NodeContext<'_>,
    query: ValueId,
    key: ValueId,
) -> Result<ValueId, Error> {
    let size = ctx.shape(query)?[3];
    let scale = ctx.attributes().get::<f32>("scale")?.map(f64::from);
    let factor = match (scale, ctx.known(size)) {
        (Some(scale), _) => ctx.scalar_like(query, scale.sqrt())?,
        (None, Some(size)) => ctx.scalar_like(query, 1.0 / (size as f64).sqrt().sqrt())?,
        (None, None) => {
            let size = ctx.dim_as_data(size)?;
            let dtype = ctx.dtype(query)?;
            ctx.build(|builder| {
                let size = builder.cast(size, DType::F64)?;
                let root = builder.rsqrt(size)?;
                let root = builder.sqrt(root)?;
                builder.cast(root, dtype)
            })?
        }
    };
    // Half of the scale on each side keeps products in range.
    let query = ctx.mul(query, factor)?;
    let key = ctx.mul(key, factor)?;
    let key = ctx.transpose(key, &[0, 1, 3, 2])?;
    ctx.matmul(query, key)
}

/// The term added to the scores.
struct Bias {
    value: Option<ValueId>,
    /// Whether a query may have no key left.
    may_mask_a_row: bool,
}

impl Bias {
    fn read(ctx: &mut NodeContext<'_>, query: ValueId, key: ValueId) -> Result<Self, Error> {
        let (queries, keys) = (ctx.shape(query)?[2], ctx.shape(key)?[2]);
        let dtype = ctx.dtype(query)?;
        let lengths = ctx.optional(6);
        let mut bias = Self {
            value: None,
            may_mask_a_row: lengths.is_some() || ctx.optional(3).is_some(),
        };
        if let Some(mask) = ctx.optional(3) {
            let mask = padded_mask(ctx, mask, keys)?;
            let mask = if ctx.dtype(mask)? == DType::Bool {
                where_allowed(ctx, mask, dtype)?
            } else {
                mask
            };
            bias.value = Some(mask);
        }
        let left = ctx.attributes().get_or("left_window_size", -1_i64)?;
        let right = ctx.attributes().get_or("right_window_size", -1_i64)?;
        let is_causal = ctx.flag("is_causal", false)?;
        if left >= 0 || right >= 0 {
            bias.may_mask_a_row = true;
        }
        if is_causal || left >= 0 || right >= 0 {
            let batch = ctx.shape(query)?[0];
            let offset = offset(ctx, lengths, batch, queries)?;
            let unit = ctx.size(1);
            let distance = ctx.build(|builder| {
                let query = builder.iota(DType::I64, &[queries, unit], 0)?;
                let key = builder.iota(DType::I64, &[unit, keys], 1)?;
                let position = match offset {
                    Some(offset) => builder.add(query, offset)?,
                    None => query,
                };
                builder.sub(position, key)
            })?;
            // At most `left` keys before the query's own position, at most `right` after it.
            let bounds = [
                (is_causal, "ge", 0),
                (left >= 0, "le", left),
                (right >= 0, "ge", right.checked_neg().unwrap_or(0)),
            ];
            for (applies, comparison, bound) in bounds {
                if applies {
                    let bound = ctx.integer(bound)?;
                    let allowed = ctx.map(comparison, &[distance, bound])?;
                    bias.forbid_unless(ctx, allowed, dtype)?;
                }
            }
        }
        if let Some(lengths) = lengths {
            let batch = ctx.shape(query)?[0];
            let unit = ctx.size(1);
            let allowed = ctx.build(|builder| {
                let lengths = builder.cast(lengths, DType::I64)?;
                let lengths = builder.reshape(lengths, &[batch, unit, unit, unit])?;
                let key = builder.iota(DType::I64, &[keys], 0)?;
                builder.less(key, lengths)
            })?;
            bias.forbid_unless(ctx, allowed, dtype)?;
        }
        Ok(bias)
    }

    fn forbid_unless(
        &mut self,
        ctx: &mut NodeContext<'_>,
        allowed: ValueId,
        dtype: DType,
    ) -> Result<(), Error> {
        let more = where_allowed(ctx, allowed, dtype)?;
        self.value = Some(match self.value {
            Some(value) => ctx.add(value, more)?,
            None => more,
        });
        Ok(())
    }
}

/// 0 where true, otherwise minus infinity.
fn where_allowed(
    ctx: &mut NodeContext<'_>,
    allowed: ValueId,
    dtype: DType,
) -> Result<ValueId, Error> {
    ctx.build(|builder| {
        let zero = builder.scalar(dtype, 0.0)?;
        let never = builder.scalar(dtype, f64::NEG_INFINITY)?;
        builder.select(allowed, zero, never)
    })
}

/// The number of keys before the first query: that of the past, or, per sample, the rest of its length.
fn offset(
    ctx: &mut NodeContext<'_>,
    lengths: Option<ValueId>,
    batch: DimId,
    queries: DimId,
) -> Result<Option<ValueId>, Error> {
    if let Some(past) = ctx.optional(4) {
        let length = ctx.shape(past)?[2];
        return Ok(Some(ctx.dim_as_data(length)?));
    }
    let Some(lengths) = lengths else {
        return Ok(None);
    };
    let queries = ctx.dim_as_data(queries)?;
    let unit = ctx.size(1);
    Ok(Some(ctx.build(|builder| {
        let lengths = builder.cast(lengths, DType::I64)?;
        let offset = builder.sub(lengths, queries)?;
        builder.reshape(offset, &[batch, unit, unit, unit])
    })?))
}

/// A mask that covers all keys: those beyond it are not attended.
fn padded_mask(ctx: &mut NodeContext<'_>, mask: ValueId, keys: DimId) -> Result<ValueId, Error> {
    let dims = ctx.shape(mask)?;
    let Some((&own, outer)) = dims.split_last() else {
        return Ok(mask);
    };
    if own == keys {
        return Ok(mask);
    }
    let (zero, missing) = ctx.sizes(|table| {
        let zero = table.constant(0);
        let missing = table.sub(keys, own)?;
        Ok((zero, table.max(missing, zero)?))
    })?;
    let low = Dims::from_elem(zero, dims.len());
    let mut high = Dims::from_elem(zero, outer.len());
    high.push(missing);
    let is_bool = ctx.dtype(mask)? == DType::Bool;
    let never = ctx.scalar_like(mask, if is_bool { 0.0 } else { f64::NEG_INFINITY })?;
    ctx.build(|builder| builder.pad(mask, never, &low, &high, PadMode::Constant))
}

/// Softmax over the last axis, with zeros in rows in which no key is attended.
fn guarded_softmax(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    bias: Option<ValueId>,
) -> Result<ValueId, Error> {
    let zero = ctx.scalar_like(x, 0.0)?;
    let one = ctx.scalar_like(x, 1.0)?;
    let never = ctx.scalar_like(x, f64::NEG_INFINITY)?;
    let largest = ctx.reduce(ReduceFunction::Max, x, &[3], true)?;
    let weights = ctx.build(|builder| {
        let nothing = builder.equal(largest, never)?;
        let shift = builder.select(nothing, zero, largest)?;
        let shifted = builder.sub(x, shift)?;
        let powers = builder.exp(shifted)?;
        let sum = builder.reduce_sum(powers, &[3], true)?;
        let empty = builder.equal(sum, zero)?;
        let sum = builder.select(empty, one, sum)?;
        builder.div(powers, sum)
    })?;
    let Some(bias) = bias else {
        return Ok(weights);
    };
    // The mask decides, regardless of the scores.
    let last = ctx.rank(bias)?.saturating_sub(1);
    let most = ctx.reduce(ReduceFunction::Max, bias, &[last], true)?;
    let never = ctx.scalar_like(bias, f64::NEG_INFINITY)?;
    let nothing = ctx.map("eq", &[most, never])?;
    ctx.map("select", &[nothing, zero, weights])
}
