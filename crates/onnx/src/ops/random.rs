//! Random numbers, from a counter-based generator.
//!
//! The graph is a function: a node returns the same numbers in every call. They depend on the node's `seed` or, without
//! one, on its name, so that nodes differ; they differ from those of other implementations.

use kiln_ir::{Op, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};

use super::cast::dtype_attribute;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{AttributeValue, Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Bernoulli", &[15], bernoulli),
    operator("Multinomial", &[7], multinomial),
    operator("RandomNormal", &[1], |ctx| of_shape(ctx, normal)),
    operator("RandomNormalLike", &[1], |ctx| like(ctx, normal)),
    operator("RandomUniform", &[1], |ctx| of_shape(ctx, uniform)),
    operator("RandomUniformLike", &[1], |ctx| like(ctx, uniform)),
];

type Distribution = fn(&mut NodeContext<'_>, &[DimId]) -> Result<ValueId, Error>;

fn of_shape(ctx: &mut NodeContext<'_>, distribution: Distribution) -> Imported {
    let shape = ctx.attributes().require::<&[i64]>("shape")?;
    if let Some(&size) = shape.iter().find(|&&size| size < 0) {
        return Err(ctx.attribute_error("shape", "sizes of 0 or more", size));
    }
    let dims: Vec<DimId> = shape.iter().map(|&size| ctx.size(size)).collect();
    let dtype = dtype_attribute(ctx, "dtype", DType::F32)?;
    let numbers = distribution(ctx, &dims)?;
    one(ctx.cast(numbers, dtype)?)
}

fn like(ctx: &mut NodeContext<'_>, distribution: Distribution) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let own = ctx.dtype(x)?;
    let dtype = dtype_attribute(ctx, "dtype", own)?;
    let numbers = distribution(ctx, &dims)?;
    one(ctx.cast(numbers, dtype)?)
}

/// The generator's key: from the seed, or from the node's path, and the number of the stream.
fn key(ctx: &mut NodeContext<'_>, stream: u64) -> Result<ValueId, Error> {
    let seed = match ctx.attributes().value("seed") {
        // Some operators have a float, others an integer.
        Some(AttributeValue::Int(seed)) => Some(seed.cast_unsigned()),
        Some(_) => ctx
            .attributes()
            .get::<f32>("seed")?
            .map(|seed| u64::from(seed.to_bits())),
        None => None,
    };
    let seed = match seed {
        Some(seed) => seed,
        // FNV-1a, which is the same in every process.
        None => ctx
            .node()
            .path()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            }),
    };
    let key = ctx.tensor_at(Tensor::from_slice(&[2], &[seed, stream]))?;
    ctx.add_constant(key)
}

/// f32 numbers in [0, 1), in steps of 2^-24.
pub(super) fn unit_numbers(
    ctx: &mut NodeContext<'_>,
    dims: &[DimId],
    stream: u64,
) -> Result<ValueId, Error> {
    let key = key(ctx, stream)?;
    let bits = ctx.op(Op::RandomBits { dims: dims.into() }, &[key])?;
    let low = ctx.scalar(DType::U32, 8.0)?;
    let bits = ctx.map("shr", &[bits, low])?;
    let numbers = ctx.cast(bits, DType::F32)?;
    ctx.scaled(numbers, 2_f64.powi(-24))
}

fn uniform(ctx: &mut NodeContext<'_>, dims: &[DimId]) -> Result<ValueId, Error> {
    let low = f64::from(ctx.attributes().get_or("low", 0.0_f32)?);
    let high = f64::from(ctx.attributes().get_or("high", 1.0_f32)?);
    let numbers = unit_numbers(ctx, dims, 0)?;
    let scaled = ctx.scaled(numbers, high - low)?;
    ctx.plus(scaled, low)
}

/// The Box-Muller transform from two uniform numbers to a normal one.
fn normal(ctx: &mut NodeContext<'_>, dims: &[DimId]) -> Result<ValueId, Error> {
    let mean = f64::from(ctx.attributes().get_or("mean", 0.0_f32)?);
    let scale = f64::from(ctx.attributes().get_or("scale", 1.0_f32)?);
    let (first, second) = (unit_numbers(ctx, dims, 0)?, unit_numbers(ctx, dims, 1)?);
    // Above 0 and at most 1, so that the logarithm is finite.
    let one = ctx.scalar(DType::F32, 1.0)?;
    let first = ctx.sub(one, first)?;
    let logarithm = ctx.map("log", &[first])?;
    let square = ctx.scaled(logarithm, -2.0)?;
    let radius = ctx.map("sqrt", &[square])?;
    let angle = ctx.scaled(second, std::f64::consts::TAU)?;
    let cosine = ctx.map("cos", &[angle])?;
    let number = ctx.mul(radius, cosine)?;
    let scaled = ctx.scaled(number, scale)?;
    ctx.plus(scaled, mean)
}

/// 1 with the operand's probability, otherwise 0.
fn bernoulli(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let own = ctx.dtype(x)?;
    let dtype = dtype_attribute(ctx, "dtype", own)?;
    let numbers = unit_numbers(ctx, &dims, 0)?;
    let wide = if own == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let (numbers, x) = (ctx.cast(numbers, wide)?, ctx.cast(x, wide)?);
    let hit = ctx.map("lt", &[numbers, x])?;
    one(ctx.cast(hit, dtype)?)
}

/// Classes drawn from rows of logarithms of unnormalised probabilities: `[N, C] -> [N, samples]`.
fn multinomial(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let [rows, classes] = ctx.dims_of_rank::<2>(0, x)?;
    let samples = ctx.attributes().get_or("sample_size", 1_i64)?;
    if samples < 0 {
        return Err(ctx.attribute_error("sample_size", "0 or more", samples));
    }
    let samples = ctx.size(samples);
    let dtype = dtype_attribute(ctx, "dtype", DType::I32)?;
    let unit = ctx.size(1);
    let x = ctx.cast(x, DType::F32)?;
    let likely = ctx.build(|builder| builder.softmax(x, 1))?;
    let sums = ctx.build(|builder| builder.cumulative_sum(likely, 1))?;
    let sums = ctx.reshape(sums, &[rows, unit, classes])?;
    let numbers = unit_numbers(ctx, &[rows, samples], 0)?;
    let numbers = ctx.reshape(numbers, &[rows, samples, unit])?;
    // The number of classes entirely below the number; the last absorbs rounding.
    let below = ctx.map("le", &[sums, numbers])?;
    let below = ctx.cast(below, DType::I64)?;
    let class = ctx.reduce(kiln_ir::ReduceFunction::Sum, below, &[2], false)?;
    let last = ctx.dim_as_data(classes)?;
    let last = ctx.plus(last, -1.0)?;
    let class = ctx.map("min", &[class, last])?;
    one(ctx.cast(class, dtype)?)
}
