//! Operators of the domain `ai.onnx.ml` that are arithmetic on tensors.

use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("ArrayFeatureExtractor", &[1], extract),
    operator("Binarizer", &[1], binarize),
    operator("Scaler", &[1], scale),
];

/// Entries of the last axis; a vector gives one row.
fn extract(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let indices = ctx.flat(indices)?;
    let Some(last) = rank.checked_sub(1) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 1 or more", found));
    };
    let y = ctx.build(|builder| builder.gather(x, indices, last))?;
    if rank == 1 {
        return one(ctx.build(|builder| builder.unsqueeze(y, &[0]))?);
    }
    one(y)
}

/// 1 where it is more than the threshold, else 0.
fn binarize(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let threshold = ctx.attributes().get_or("threshold", 0.0_f32)?;
    let threshold = ctx.scalar_like(x, f64::from(threshold))?;
    let above = ctx.map("gt", &[x, threshold])?;
    one(ctx.cast(above, ctx.dtype(x)?)?)
}

/// `(x - offset) * scale`, one of each for all columns or one per column.
fn scale(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let mut y = ctx.cast(x, DType::F32)?;
    for (name, function) in [("offset", "sub"), ("scale", "mul")] {
        if let Some(numbers) = ctx.attributes().get::<&[f32]>(name)? {
            let tensor = kiln_tensor::Tensor::from_slice(&[numbers.len()], numbers);
            let tensor = ctx.tensor_at(tensor)?;
            let numbers = ctx.add_constant(tensor)?;
            y = ctx.map(function, &[y, numbers])?;
        }
    }
    one(y)
}
