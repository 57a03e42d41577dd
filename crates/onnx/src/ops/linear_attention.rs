//! Linear attention, with a state that every step updates and reads, and the convolution used with it.

use kiln_ir::{Op, ValueId};
use kiln_shape_inference::InferError;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, operator, several};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("CausalConvWithState", &[27], causal_conv),
    operator("LinearAttention", &[27], linear_attention),
];

/// `x: [N, C, L], w: [C, 1, k], bias: [C], past: [N, C, k - 1] -> y: [N, C, L], present: [N, C, k - 1]`.
fn causal_conv(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, channels) = ctx.with_known_size(0, 1, "a known number of channels")?;
    let weights = ctx.input(1)?;
    let groups = usize::try_from(channels).unwrap_or(0);
    let [batch, channels, _] = ctx.dims_of_rank::<3>(0, x)?;
    let [_, _, kernel] = ctx.dims_of_rank::<3>(1, weights)?;
    let one = ctx.size(1);
    let before = ctx.sizes(|table| table.sub(kernel, one))?;
    let dtype = ctx.dtype(x)?;
    let past = match ctx.optional(3) {
        Some(past) => past,
        None => ctx.filled(dtype, 0.0, &[batch, channels, before])?,
    };
    let joined = ctx.build(|builder| builder.concat(&[past, x], 2))?;
    let window = ctx.build(|builder| Ok(builder.plain_window(1)))?;
    let conv = Op::Conv {
        window,
        groups,
        out: dtype,
    };
    let mut y = ctx.op(conv, &[joined, weights])?;
    if let Some(bias) = ctx.optional(2) {
        y = ctx.build(|builder| builder.add_channel_bias(y, bias))?;
    }
    match ctx.attributes().get_or("activation", "none")? {
        "none" => {}
        "silu" | "swish" => y = ctx.map("silu", &[y])?,
        other => {
            let expected = "\"none\", \"silu\" or \"swish\"";
            return Err(ctx.attribute_error("activation", expected, other));
        }
    }
    let total = ctx.shape(joined)?[2];
    let start = ctx.sizes(|table| table.sub(total, before))?;
    let present = ctx.build(|builder| builder.slice_axis(joined, 2, start, before))?;
    several([y, present])
}

/// `[N, T, heads * size]` as `[T, N, heads, size]`.
fn by_step(
    ctx: &mut NodeContext<'_>,
    index: usize,
    value: ValueId,
    heads: DimId,
) -> Result<ValueId, Error> {
    let [batch, steps, hidden] = ctx.dims_of_rank::<3>(index, value)?;
    let size = ctx.sizes(|table| table.floor_div(hidden, heads))?;
    let split = ctx.reshape(value, &[batch, steps, heads, size])?;
    let wide = ctx.cast(split, DType::F32)?;
    ctx.transpose(wide, &[1, 0, 2, 3])
}

fn heads(ctx: &mut NodeContext<'_>, name: &str) -> Result<(i64, DimId), Error> {
    let count = ctx.attributes().require::<i64>(name)?;
    if count < 1 {
        return Err(ctx.attribute_error(name, "at least 1", count));
    }
    Ok((count, ctx.size(count)))
}

/// In every step the state `[N, heads, d, e]` decays, adds the outer product of key and value, and is read with the query.
/// With `delta`, the value is first replaced by its difference from the state's value for its key.
fn linear_attention(ctx: &mut NodeContext<'_>) -> Imported {
    let (query, key, value) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let dtype = ctx.dtype(query)?;
    let (query_count, query_heads) = heads(ctx, "q_num_heads")?;
    let (count, own_heads) = heads(ctx, "kv_num_heads")?;
    if query_count % count != 0 {
        let expected = format!("a multiple of the {count} heads of the keys");
        return Err(ctx.attribute_error("q_num_heads", expected, query_count));
    }
    let rule = ctx.attributes().get_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let expected = "\"linear\", \"gated\", \"delta\" or \"gated_delta\"";
            return Err(ctx.attribute_error("update_rule", expected, other));
        }
    };
    let query = by_step(ctx, 0, query, query_heads)?;
    let key = by_step(ctx, 1, key, own_heads)?;
    let value = by_step(ctx, 2, value, own_heads)?;
    let [steps, batch, _, size] = ctx.dims_of_rank::<4>(1, key)?;
    let [_, _, _, value_size] = ctx.dims_of_rank::<4>(2, value)?;
    let decay = match gated {
        true => {
            let decay = ctx.input(4)?;
            let decay = by_step(ctx, 4, decay, own_heads)?;
            Some(ctx.map("exp", &[decay])?)
        }
        false => None,
    };
    let rate = match delta {
        true => {
            let rate = ctx.input(5)?;
            let [_, _, entries] = ctx.dims_of_rank::<3>(5, rate)?;
            Some(by_step(ctx, 5, rate, entries)?)
        }
        false => None,
    };
    let scale = match ctx.attributes().get_or("scale", 0.0_f32)? {
        0.0 => {
            let size = ctx.dim_as(size, DType::F32)?;
            ctx.map("rsqrt", &[size])?
        }
        scale => ctx.scalar(DType::F32, f64::from(scale))?,
    };
    let query = ctx.mul(query, scale)?;
    let state_dtype = match ctx.optional(3) {
        Some(past) => ctx.dtype(past)?,
        None => dtype,
    };
    let state = match ctx.optional(3) {
        Some(past) => ctx.cast(past, DType::F32)?,
        None => ctx.filled(DType::F32, 0.0, &[batch, own_heads, size, value_size])?,
    };
    let group = ctx.size(query_count / count);
    let unit = ctx.size(1);
    let trips = ctx.dim_as_data(steps)?;
    let mut captures = vec![query, key, value];
    captures.extend(decay);
    captures.extend(rate);
    let results = ctx.build(|builder| {
        builder.repeat::<InferError>(
            trips,
            &[state],
            &captures,
            |builder, step, carried, captures| {
                let mut state = carried[0];
                let mut entries = Vec::with_capacity(captures.len());
                for &capture in captures {
                    entries.push(builder.gather(capture, step, 0)?);
                }
                let (query, key, mut value) = (entries[0], entries[1], entries[2]);
                let mut further = entries[3..].iter();
                if gated && let Some(&decay) = further.next() {
                    let decay = builder.unsqueeze(decay, &[3])?;
                    state = builder.mul(state, decay)?;
                }
                let column = builder.unsqueeze(key, &[3])?;
                if delta && let Some(&rate) = further.next() {
                    let row = builder.unsqueeze(key, &[2])?;
                    let held = builder.matmul(row, state)?;
                    let held = builder.squeeze(held, &[2])?;
                    let difference = builder.sub(value, held)?;
                    value = builder.mul(rate, difference)?;
                }
                let row = builder.unsqueeze(value, &[2])?;
                let outer = builder.mul(column, row)?;
                state = builder.add(state, outer)?;
                // Each state is read by the queries of its group.
                let grouped = builder.reshape(query, &[batch, own_heads, group, size])?;
                let read = builder.matmul(grouped, state)?;
                let read = builder.reshape(read, &[batch, query_heads, unit, value_size])?;
                let read = builder.squeeze(read, &[2])?;
                Ok((vec![state], vec![read]))
            },
        )
    })?;
    let &[state, read] = results.as_slice() else {
        unreachable!("the loop gives the state and what was read");
    };
    let moved = ctx.transpose(read, &[1, 0, 2, 3])?;
    let hidden = ctx.product(&[query_heads, value_size])?;
    let merged = ctx.reshape(moved, &[batch, steps, hidden])?;
    let y = ctx.cast(merged, dtype)?;
    several([y, ctx.cast(state, state_dtype)?])
}
