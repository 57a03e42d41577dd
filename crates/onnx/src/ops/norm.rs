//! Norms, decomposed into means and element-wise operations.
//!
//! If a model's operands have different dtypes, the computation is done in the widest and the result cast back; for 16-bit
//! floats in f32.

use kiln_ir::{Dims, PoolFunction, ReduceFunction, ValueId, Window};
use kiln_tensor::DType;

use super::cast::dtype_of;
use super::pool::{root, to_power};
use super::support::{Imported, in_f32, one, operator, several};
use crate::import::{Item, Operator};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("BatchNormalization", &[6, 7, 9, 14], batch_normalization),
    operator("GroupNormalization", &[18, 21], group_normalization),
    operator("InstanceNormalization", &[6], instance_normalization),
    operator("LRN", &[1], local_response_normalization),
    operator("LayerNormalization", &[17], layer_normalization),
    operator("LpNormalization", &[1], lp_normalization),
    operator(
        "MeanVarianceNormalization",
        &[9],
        mean_variance_normalization,
    ),
    operator("RMSNormalization", &[23], rms_normalization),
];

fn epsilon(ctx: &NodeContext<'_>) -> Result<f64, Error> {
    Ok(f64::from(ctx.attributes().get_or("epsilon", 1e-5_f32)?))
}

/// The widest of the dtypes of the first operands.
fn widest(ctx: &NodeContext<'_>, operands: usize) -> Result<DType, Error> {
    let mut widest = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    for index in 1..operands {
        if let Some(value) = ctx.optional(index) {
            let dtype = ctx.dtype(value)?;
            if dtype.bits() > widest.bits() {
                widest = dtype;
            }
        }
    }
    Ok(widest)
}

/// Statistics per channel: given, or, in training, those of the operand, from which the running ones are updated.
fn batch_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let epsilon = epsilon(ctx)?;
    if ctx.version() < 9 && ctx.attributes().get_or("spatial", 1_i64)? != 1 {
        return Err(ctx.unsupported("statistics per element (attribute \"spatial\" of 0)"));
    }
    if ctx.version() < 7 && !ctx.flag("is_test", false)? {
        return Err(ctx.unsupported("training mode, the default of version 6 without \"is_test\""));
    }
    let dtype = ctx.dtype(x)?;
    let wide = match widest(ctx, 5)? {
        DType::F16 | DType::BF16 => DType::F32,
        wide => wide,
    };
    let x = ctx.cast(x, wide)?;
    let mut given = [x; 4];
    for (index, value) in given.iter_mut().enumerate() {
        let operand = ctx.input(index + 1)?;
        *value = ctx.cast(operand, wide)?;
    }
    if ctx.version() < 14 || !ctx.flag("training_mode", false)? {
        let y = ctx.build(|builder| builder.batch_norm(x, given, epsilon))?;
        return one(ctx.cast(y, dtype)?);
    }
    let [scale, bias, mean, variance] = given;
    let momentum = f64::from(ctx.attributes().get_or("momentum", 0.9_f32)?);
    let axes: Vec<usize> = (0..ctx.rank(x)?).filter(|&axis| axis != 1).collect();
    let (own_mean, own_variance) = statistics(ctx, x, &axes)?;
    let (own_mean, own_variance) = (
        ctx.build(|builder| builder.squeeze(own_mean, &axes))?,
        ctx.build(|builder| builder.squeeze(own_variance, &axes))?,
    );
    let y =
        ctx.build(|builder| builder.batch_norm(x, [scale, bias, own_mean, own_variance], epsilon))?;
    let mut outputs = vec![ctx.cast(y, dtype)?];
    for (index, (running, own)) in [(mean, own_mean), (variance, own_variance)]
        .into_iter()
        .enumerate()
    {
        let kept = ctx.scaled(running, momentum)?;
        let new = ctx.scaled(own, 1.0 - momentum)?;
        let sum = ctx.add(kept, new)?;
        let stored = ctx
            .input(index + 3)
            .and_then(|operand| ctx.dtype(operand))?;
        outputs.push(ctx.cast(sum, stored)?);
    }
    Ok(outputs.into_iter().map(Item::Tensor).collect())
}

/// Mean and variance over axes, which are kept.
fn statistics(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: &[usize],
) -> Result<(ValueId, ValueId), Error> {
    ctx.build(|builder| {
        let mean = builder.reduce_mean(x, axes, true)?;
        let centred = builder.sub(x, mean)?;
        let squares = builder.square(centred)?;
        Ok((mean, builder.reduce_mean(squares, axes, true)?))
    })
}

fn instance_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, scale, bias) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let epsilon = epsilon(ctx)?;
    one(in_f32(ctx, x, |ctx, x| {
        let wide = ctx.dtype(x)?;
        let (scale, bias) = (ctx.cast(scale, wide)?, ctx.cast(bias, wide)?);
        ctx.build(|builder| builder.instance_norm(x, scale, bias, epsilon))
    })?)
}

/// Before version 21, scale and bias are per group; from then on, per channel.
fn group_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, mut scale, mut bias) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let groups = ctx.attributes().require::<i64>("num_groups")?;
    if groups < 1 {
        return Err(ctx.attribute_error("num_groups", "at least 1", groups));
    }
    if ctx.version() < 21 {
        scale = per_channel_of_group(ctx, scale, x, groups)?;
        bias = per_channel_of_group(ctx, bias, x, groups)?;
    }
    let epsilon = epsilon(ctx)?;
    let dtype = ctx.dtype(x)?;
    let wide = stash_type(ctx, dtype)?;
    let (x, scale, bias) = (
        ctx.cast(x, wide)?,
        ctx.cast(scale, wide)?,
        ctx.cast(bias, wide)?,
    );
    let y = ctx.build(|builder| builder.group_norm(x, groups, scale, bias, epsilon))?;
    one(ctx.cast(y, dtype)?)
}

/// Each element of a vector repeated for the channels of its group.
fn per_channel_of_group(
    ctx: &mut NodeContext<'_>,
    vector: ValueId,
    x: ValueId,
    groups: i64,
) -> Result<ValueId, Error> {
    let Some(&channels) = ctx.shape(x)?.get(1) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor with channels", found));
    };
    let (split, repeated) = ctx.sizes(|table| {
        let (one, groups) = (table.constant(1), table.constant(groups));
        let size = table.floor_div(channels, groups)?;
        Ok(([groups, one], [groups, size]))
    })?;
    ctx.build(|builder| {
        let split = builder.reshape(vector, &split)?;
        let repeated = builder.broadcast_to(split, &repeated)?;
        builder.reshape(repeated, &[channels])
    })
}

/// The dtype in which a norm computes: at least the one the node names.
fn stash_type(ctx: &NodeContext<'_>, dtype: DType) -> Result<DType, Error> {
    let stash = ctx.attributes().get_or("stash_type", 1_i64)?;
    let stash = dtype_of(ctx, stash)?;
    Ok(if stash.bits() > dtype.bits() {
        stash
    } else {
        dtype
    })
}

/// Results: the normalised operand, scaled and shifted; the mean; and one over the standard deviation.
fn layer_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, scale, bias) = (ctx.input(0)?, ctx.input(1)?, ctx.optional(2));
    let dtype = ctx.dtype(x)?;
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(-1, rank)?;
    let epsilon = epsilon(ctx)?;
    let wide = stash_type(ctx, dtype)?;
    if wide == dtype && !ctx.wants_output(1) && !ctx.wants_output(2) {
        let scale = Some(scale);
        return one(ctx.build(|builder| builder.layer_norm(x, axis, scale, bias, epsilon))?);
    }
    let axes: Vec<usize> = (axis..rank).collect();
    let x = ctx.cast(x, wide)?;
    let (mean, variance) = statistics(ctx, x, &axes)?;
    let epsilon = ctx.scalar_like(variance, epsilon)?;
    let (normal, inverse) = ctx.build(|builder| {
        let spread = builder.add(variance, epsilon)?;
        let inverse = builder.rsqrt(spread)?;
        let centred = builder.sub(x, mean)?;
        Ok((builder.mul(centred, inverse)?, inverse))
    })?;
    let normal = ctx.cast(normal, dtype)?;
    let mut y = ctx.mul(normal, scale)?;
    if let Some(bias) = bias {
        y = ctx.add(y, bias)?;
    }
    several([y, mean, inverse])
}

fn rms_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, scale) = (ctx.input(0)?, ctx.input(1)?);
    let dtype = ctx.dtype(x)?;
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(-1, rank)?;
    let epsilon = epsilon(ctx)?;
    let wide = stash_type(ctx, dtype)?;
    let x = ctx.cast(x, wide)?;
    let normal = ctx.build(|builder| builder.rms_norm(x, axis, None, epsilon))?;
    // The result has the scale's dtype.
    let out = ctx.dtype(scale)?;
    let normal = ctx.cast(normal, out)?;
    one(ctx.mul(normal, scale)?)
}

/// `x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta`.
fn local_response_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let size = ctx.attributes().require::<i64>("size")?;
    if size < 1 || dims.len() < 2 {
        return Err(ctx.attribute_error("size", "at least 1, of a tensor with channels", size));
    }
    let alpha = f64::from(ctx.attributes().get_or("alpha", 1e-4_f32)?);
    let beta = f64::from(ctx.attributes().get_or("beta", 0.75_f32)?);
    let bias = f64::from(ctx.attributes().get_or("bias", 1.0_f32)?);
    one(in_f32(ctx, x, |ctx, x| {
        let squares = ctx.map("square", &[x])?;
        // Channels become a spatial axis: [N, 1, C, everything else].
        let rest = ctx.product(dims.get(2..).unwrap_or_default())?;
        let unit = ctx.size(1);
        let planes: Dims = [dims[0], unit, dims[1], rest].into_iter().collect();
        let planes = ctx.reshape(squares, &planes)?;
        let (before, after) = ((size - 1) / 2, size - 1 - (size - 1) / 2);
        let window: Window =
            ctx.build(|builder| Ok(builder.window(&[1, 1], &[1, 1], &[before, 0], &[after, 0])))?;
        let sum =
            ctx.build(|builder| builder.pool(planes, PoolFunction::Sum, &[size, 1], window))?;
        let sum = ctx.reshape(sum, &dims)?;
        let scaled = ctx.scaled(sum, alpha / size as f64)?;
        let bias = ctx.scalar_like(x, bias)?;
        let spread = ctx.add(scaled, bias)?;
        let beta = ctx.scalar_like(x, beta)?;
        let spread = ctx.map("pow", &[spread, beta])?;
        ctx.div(x, spread)
    })?)
}

/// `(x - mean) / (standard deviation + 1e-9)`, as in the operator's definition.
fn mean_variance_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let axes = ctx.attributes().get_or::<&[i64]>("axes", &[0, 2, 3])?;
    let axes = ctx.ascending(axes, rank)?;
    one(in_f32(ctx, x, |ctx, x| {
        let (mean, variance) = statistics(ctx, x, &axes)?;
        let epsilon = ctx.scalar_like(x, 1e-9)?;
        ctx.build(|builder| {
            let centred = builder.sub(x, mean)?;
            let deviation = builder.sqrt(variance)?;
            let deviation = builder.add(deviation, epsilon)?;
            builder.div(centred, deviation)
        })
    })?)
}

/// `x` divided by its norm along an axis; 0 where that is 0.
fn lp_normalization(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(-1, rank)?;
    let p = ctx.attributes().get_or("p", 2_i64)?;
    one(in_f32(ctx, x, |ctx, x| {
        let powers = to_power(ctx, x, p)?;
        let sum = ctx.reduce(ReduceFunction::Sum, powers, &[axis], true)?;
        let norm = root(ctx, sum, p)?;
        let zero = ctx.scalar_like(x, 0.0)?;
        let nothing = ctx.map("eq", &[norm, zero])?;
        let quotient = ctx.div(x, norm)?;
        ctx.map("select", &[nothing, zero, quotient])
    })?)
}
