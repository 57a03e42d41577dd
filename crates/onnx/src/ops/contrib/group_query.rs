//! Grouped-query attention, over caches that are written in place or grow.
//!
//! The result's caches are as large as the past, or as the total length if that is larger, as determined by the stated
//! sizes. A model whose caches have a fixed capacity is therefore computed in place, if the past's size is known to be
//! at least the total length. The positions of a sample's new keys in its cache, and the number of keys it attends to,
//! are data, so samples of a batch may have different lengths.

use kiln_ir::{Combine, PadMode, ReduceFunction, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::super::support::{Imported, operator, several};
use super::attention::{count, split};
use super::rotary::turned;
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] =
    &[operator("GroupQueryAttention", &[1], group_query_attention)];

/// Operands: `query, key, value, past key, past value, lengths - 1, total length, cosines, sines, positions, attention
/// bias, sinks`. Keys and values may be packed after the queries.
fn group_query_attention(ctx: &mut NodeContext<'_>) -> Imported {
    refuse_unknown(ctx)?;
    let heads = count(ctx, "num_heads")?;
    let key_heads = count(ctx, "kv_num_heads")?;
    if heads % key_heads != 0 {
        let expected = format!("a multiple of kv_num_heads, {key_heads}");
        return Err(ctx.attribute_error("num_heads", expected, heads));
    }
    let [mut query, mut key, value] = parts(ctx, heads, key_heads)?;
    let place = Place::read(ctx, query)?;
    if ctx.flag("do_rotary", false)? {
        let rows = place.angles(ctx)?;
        let interleaved = ctx.flag("rotary_interleaved", false)?;
        query = turned(ctx, query, rows, interleaved)?;
        key = turned(ctx, key, rows, interleaved)?;
    }
    let keys = place.cached(ctx, 3, key)?;
    let values = place.cached(ctx, 4, value)?;
    let y = attended(ctx, &place, [query, keys, values])?;
    several([y, keys, values])
}

/// Rejects features that change results and are not imported.
fn refuse_unknown(ctx: &NodeContext<'_>) -> Result<(), Error> {
    for index in 12..ctx.n_inputs() {
        if ctx.optional(index).is_some() {
            return Err(ctx.unsupported(format!("operand {index} of group query attention")));
        }
    }
    for (name, what) in [
        ("qk_output", "scores as a result"),
        ("kv_cache_bit_width", "quantised caches"),
    ] {
        if ctx.flag(name, false)? {
            return Err(ctx.unsupported(what));
        }
    }
    Ok(())
}

/// Queries, keys and values, `[batch, heads, sequence, size]`.
fn parts(ctx: &mut NodeContext<'_>, heads: i64, key_heads: i64) -> Result<[ValueId; 3], Error> {
    let query = ctx.input(0)?;
    let parts = match (ctx.optional(1), ctx.optional(2)) {
        (Some(key), Some(value)) => vec![query, key, value],
        _ => {
            // Packed: heads + 2 * key heads, one after the other.
            let [_, _, hidden] = ctx.dims_of_rank::<3>(0, query)?;
            let sizes = ctx.sizes(|table| {
                let (own, shared) = (table.constant(heads), table.constant(key_heads));
                let all = table.sum(&[own, shared, shared])?;
                let size = table.floor_div(hidden, all)?;
                let shared = table.mul(shared, size)?;
                Ok([table.mul(own, size)?, shared, shared])
            })?;
            ctx.build(|builder| builder.split(query, 2, &sizes))?
        }
    };
    let &[query, key, value] = parts.as_slice() else {
        unreachable!("there are three parts");
    };
    Ok([
        split(ctx, query, heads)?,
        split(ctx, key, key_heads)?,
        split(ctx, value, key_heads)?,
    ])
}

/// The positions of the new keys in their caches.
struct Place {
    batch: DimId,
    sequence: DimId,
    /// The size of the caches of the result.
    capacity: DimId,
    /// The number of positions that queries may see, at the start of the caches.
    total: DimId,
    /// The keys before the new ones, `i64[batch, 1]`.
    before: ValueId,
    /// The positions of the new keys, `i64[batch, sequence]`.
    positions: ValueId,
}

impl Place {
    fn read(ctx: &mut NodeContext<'_>, query: ValueId) -> Result<Self, Error> {
        let dims = ctx.shape(query)?;
        let (batch, sequence) = (dims[0], dims[2]);
        let past = match ctx.optional(3) {
            Some(past) => ctx.dims_of_rank::<4>(3, past)?[2],
            None => ctx.size(0),
        };
        let total = ctx.input(6)?;
        let &[total] = ctx.sizes_in(total)?.as_slice() else {
            let found = ctx.builder().describe(total);
            return Err(ctx.operand_error(6, "one number", found));
        };
        let capacity = ctx.sizes(|table| table.max(past, total))?;
        let unit = ctx.size(1);
        let lengths = ctx.input(5)?;
        let lengths = ctx.cast(lengths, DType::I64)?;
        let lengths = ctx.reshape(lengths, &[batch, unit])?;
        let new = ctx.dim_as(sequence, DType::I64)?;
        let before = ctx.sub(lengths, new)?;
        let before = ctx.plus(before, 1.0)?;
        let zero = ctx.integer(0)?;
        // A prompt that is shorter than its batch's longest begins at 0 and is followed by padding.
        let before = ctx.map("max", &[before, zero])?;
        let all = ctx.dim_as(total, DType::I64)?;
        let is_prompt = ctx.map("eq", &[all, new])?;
        let before = ctx.select(is_prompt, zero, before)?;
        let step = ctx.positions(DType::I64, &[unit, sequence], 1)?;
        let positions = ctx.add(before, step)?;
        Ok(Self {
            batch,
            sequence,
            capacity,
            total,
            before,
            positions,
        })
    }

    /// Cosines and sines of the new keys, `[batch, 1, sequence, half]`.
    fn angles(&self, ctx: &mut NodeContext<'_>) -> Result<(ValueId, ValueId), Error> {
        let positions = ctx.optional(9).unwrap_or(self.positions);
        let unit = ctx.size(1);
        let mut row = |index: usize| {
            let table = ctx.input(index)?;
            let [_, half] = ctx.dims_of_rank::<2>(index, table)?;
            let rows = ctx.build(|builder| builder.gather(table, positions, 0))?;
            ctx.reshape(rows, &[self.batch, unit, self.sequence, half])
        };
        Ok((row(7)?, row(8)?))
    }

    /// The part of a cache that queries may see, `[batch, heads, total, size]`.
    fn seen(&self, ctx: &mut NodeContext<'_>, cache: ValueId) -> Result<ValueId, Error> {
        if self.total == self.capacity {
            return Ok(cache);
        }
        let zero = ctx.size(0);
        ctx.build(|builder| builder.slice_axis(cache, 2, zero, self.total))
    }

    /// The cache at operand `index` with `new` in it, `[batch, heads, capacity, size]`.
    fn cached(
        &self,
        ctx: &mut NodeContext<'_>,
        index: usize,
        new: ValueId,
    ) -> Result<ValueId, Error> {
        let dims = ctx.shape(new)?;
        let (heads, size) = (dims[1], dims[3]);
        let zero = ctx.size(0);
        let never = ctx.scalar_like(new, 0.0)?;
        let cache = match ctx.optional(index) {
            Some(past) => past,
            None => ctx.filled(ctx.dtype(new)?, 0.0, &[self.batch, heads, zero, size])?,
        };
        let own = ctx.shape(cache)?[2];
        let cache = if own == self.capacity {
            cache
        } else {
            let missing = ctx.sizes(|table| table.sub(self.capacity, own))?;
            let (low, high) = ([zero; 4], [zero, zero, missing, zero]);
            ctx.build(|builder| builder.pad(cache, never, &low, &high, PadMode::Constant))?
        };
        if ctx.known(self.batch) == Some(1) {
            let unit = ctx.size(1);
            let at = ctx.reshape(self.before, &[unit])?;
            return ctx.build(|builder| builder.update_slice(cache, at, new, &[2]));
        }
        // One index per row of features: its sample, head and position.
        let unit = ctx.size(1);
        let rows = [self.batch, heads, self.sequence, unit];
        let sample = ctx.positions(DType::I64, &rows, 0)?;
        let head = ctx.positions(DType::I64, &rows, 1)?;
        let at = ctx.reshape(self.positions, &[self.batch, unit, self.sequence, unit])?;
        let at = ctx.broadcast(at, &rows)?;
        ctx.build(|builder| {
            let indices = builder.concat(&[sample, head, at], 3)?;
            builder.scatter_nd(cache, indices, new, Combine::Set)
        })
    }
}

/// The result of attention of the queries `[batch, heads, sequence, size]` to the caches, `[batch, sequence, heads *
/// size]`.
fn attended(
    ctx: &mut NodeContext<'_>,
    place: &Place,
    [query, keys, values]: [ValueId; 3],
) -> Result<ValueId, Error> {
    let dims = ctx.shape(query)?;
    let (heads, size) = (dims[1], dims[3]);
    let shared = ctx.shape(keys)?[1];
    let [keys, values] = [place.seen(ctx, keys)?, place.seen(ctx, values)?];
    let group = ctx.sizes(|table| table.floor_div(heads, shared))?;
    let dtype = ctx.dtype(query)?;
    let query = ctx.reshape(query, &[place.batch, shared, group, place.sequence, size])?;
    let keys = ctx.build(|builder| builder.unsqueeze(keys, &[2]))?;
    let keys = ctx.transpose(keys, &[0, 1, 2, 4, 3])?;
    let scores = ctx.matmul(query, keys)?;
    let wide = match dtype {
        DType::F64 => dtype,
        _ => DType::F32,
    };
    let scores = ctx.cast(scores, wide)?;
    let scale = match ctx.attributes().get_or("scale", 0.0_f32)? {
        0.0 => {
            let size = ctx.dim_as(size, wide)?;
            ctx.map("rsqrt", &[size])?
        }
        scale => ctx.scalar(wide, f64::from(scale))?,
    };
    let mut scores = ctx.mul(scores, scale)?;
    let softcap = f64::from(ctx.attributes().get_or("softcap", 0.0_f32)?);
    if softcap > 0.0 {
        let part = ctx.scaled(scores, 1.0 / softcap)?;
        let curve = ctx.map("tanh", &[part])?;
        scores = ctx.scaled(curve, softcap)?;
    }
    if let Some(bias) = bias(ctx, place, (shared, group))? {
        let bias = ctx.cast(bias, wide)?;
        scores = ctx.add(scores, bias)?;
    }
    let never = ctx.scalar(wide, f64::NEG_INFINITY)?;
    for hidden in hidden(ctx, place)? {
        scores = ctx.select(hidden, never, scores)?;
    }
    let weights = softmax(ctx, scores, (shared, group))?;
    let weights = ctx.cast(weights, dtype)?;
    let values = ctx.build(|builder| builder.unsqueeze(values, &[2]))?;
    let mixed = ctx.matmul(weights, values)?;
    let moved = ctx.transpose(mixed, &[0, 3, 1, 2, 4])?;
    let width = ctx.product(&[heads, size])?;
    ctx.reshape(moved, &[place.batch, place.sequence, width])
}

/// Which keys a query does not see, `bool[batch, 1, 1, sequence, total]`: later ones, and those before its window.
fn hidden(ctx: &mut NodeContext<'_>, place: &Place) -> Result<Vec<ValueId>, Error> {
    let unit = ctx.size(1);
    let dims = [place.batch, unit, unit, place.sequence, unit];
    let query = ctx.reshape(place.positions, &dims)?;
    let key = ctx.positions(DType::I64, &[place.total], 0)?;
    let mut hidden = vec![ctx.map("lt", &[query, key])?];
    let window = ctx.attributes().get_or("local_window_size", -1_i64)?;
    if window >= 0 {
        let size = ctx.integer(window)?;
        let first = ctx.sub(query, size)?;
        hidden.push(ctx.map("ge", &[first, key])?);
    }
    Ok(hidden)
}

/// The term added to scores, `[batch or 1, shared or 1, group or 1, sequence, total]`; `None` if the node has none.
fn bias(
    ctx: &mut NodeContext<'_>,
    place: &Place,
    (shared, group): (DimId, DimId),
) -> Result<Option<ValueId>, Error> {
    let Some(bias) = ctx.optional(10) else {
        return Ok(None);
    };
    let [samples, heads, sequence, own] = ctx.dims_of_rank::<4>(10, bias)?;
    let (zero, unit) = (ctx.size(0), ctx.size(1));
    let missing = ctx.sizes(|table| {
        let missing = table.sub(place.total, own)?;
        table.max(missing, zero)
    })?;
    let (low, high) = ([zero; 4], [zero, zero, zero, missing]);
    let none = ctx.scalar_like(bias, 0.0)?;
    let bias = match own == place.total {
        true => bias,
        false => ctx.build(|builder| builder.pad(bias, none, &low, &high, PadMode::Constant))?,
    };
    if heads == unit {
        return Ok(Some(ctx.build(|builder| builder.unsqueeze(bias, &[2]))?));
    }
    let all = ctx.product(&[shared, group])?;
    let bias = ctx.broadcast(bias, &[samples, all, sequence, place.total])?;
    let dims = [samples, shared, group, sequence, place.total];
    Ok(Some(ctx.reshape(bias, &dims)?))
}

/// Softmax over the last axis; with sinks, each head has one additional score, whose weight is dropped.
fn softmax(
    ctx: &mut NodeContext<'_>,
    scores: ValueId,
    (shared, group): (DimId, DimId),
) -> Result<ValueId, Error> {
    let sink = match ctx.optional(11) {
        Some(sinks) => {
            let sinks = ctx.cast(sinks, ctx.dtype(scores)?)?;
            let unit = ctx.size(1);
            ctx.reshape(sinks, &[shared, group, unit, unit])?
        }
        None if ctx.flag("smooth_softmax", false)? => ctx.scalar_like(scores, 0.0)?,
        None => return ctx.build(|builder| builder.softmax(scores, 4)),
    };
    let largest = ctx.reduce(ReduceFunction::Max, scores, &[4], true)?;
    let largest = ctx.map("max", &[largest, sink])?;
    ctx.build(|builder| {
        let shifted = builder.sub(scores, largest)?;
        let powers = builder.exp(shifted)?;
        let sum = builder.reduce_sum(powers, &[4], true)?;
        let sink = builder.sub(sink, largest)?;
        let sink = builder.exp(sink)?;
        let sum = builder.add(sum, sink)?;
        builder.div(powers, sum)
    })
}
