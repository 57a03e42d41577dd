//! Losses between scores and target classes.

use kiln_ir::{Dims, Op, ReduceFunction, ValueId};
use kiln_tensor::DType;

use super::support::{Imported, one, operator, several};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("NegativeLogLikelihoodLoss", &[12], negative_log_likelihood),
    operator("SoftmaxCrossEntropyLoss", &[12], softmax_cross_entropy),
];

fn negative_log_likelihood(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    one(loss(ctx, x)?)
}

/// The same for scores that are not yet log-probabilities; these are the second result.
fn softmax_cross_entropy(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let logarithms = ctx.build(|builder| builder.log_softmax(x, 1))?;
    let loss = loss(ctx, logarithms)?;
    several([loss, logarithms])
}

/// `-x[n, target[n, ..], ..] * weight[target[n, ..]]`, reduced: `x: [N, C, ..], target: [N, ..]`.
fn loss(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    let target = ctx.input(1)?;
    let target = ctx.cast(target, DType::I64)?;
    let ignored = match ctx.attributes().get::<i64>("ignore_index")? {
        Some(ignored) => {
            let ignored = ctx.integer(ignored)?;
            Some(ctx.map("eq", &[target, ignored])?)
        }
        None => None,
    };
    // An ignored target need not be a class: it reads class 0, with weight 0.
    let class = match ignored {
        Some(ignored) => {
            let zero = ctx.integer(0)?;
            ctx.map("select", &[ignored, zero, target])?
        }
        None => target,
    };
    let index = ctx.build(|builder| builder.unsqueeze(class, &[1]))?;
    let picked = ctx.op(Op::GatherElements { axis: 1 }, &[x, index])?;
    let picked = ctx.build(|builder| builder.squeeze(picked, &[1]))?;
    let mut losses = ctx.map("neg", &[picked])?;
    let zero = ctx.scalar_like(x, 0.0)?;
    let mut weights = match ctx.optional(2) {
        Some(weights) => Some(ctx.build(|builder| builder.gather(weights, class, 0))?),
        None => None,
    };
    if let Some(ignored) = ignored {
        let given = match weights {
            Some(weights) => weights,
            None => ctx.scalar_like(x, 1.0)?,
        };
        weights = Some(ctx.map("select", &[ignored, zero, given])?);
        // Not times 0, which would keep an infinity.
        losses = ctx.map("select", &[ignored, zero, losses])?;
    }
    if let Some(weights) = weights {
        losses = ctx.mul(losses, weights)?;
    }
    reduced(ctx, losses, weights)
}

fn reduced(
    ctx: &mut NodeContext<'_>,
    losses: ValueId,
    weights: Option<ValueId>,
) -> Result<ValueId, Error> {
    let dims: Dims = ctx.shape(losses)?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    match (ctx.attributes().get_or("reduction", "mean")?, weights) {
        ("none", _) => Ok(losses),
        ("sum", _) => ctx.reduce(ReduceFunction::Sum, losses, &axes, false),
        ("mean", None) => ctx.reduce(ReduceFunction::Mean, losses, &axes, false),
        ("mean", Some(weights)) => {
            let sum = ctx.reduce(ReduceFunction::Sum, losses, &axes, false)?;
            let weights = ctx.reduce(ReduceFunction::Sum, weights, &axes, false)?;
            ctx.div(sum, weights)
        }
        (other, _) => {
            let expected = "\"none\", \"sum\" or \"mean\"";
            Err(ctx.attribute_error("reduction", expected, other))
        }
    }
}
