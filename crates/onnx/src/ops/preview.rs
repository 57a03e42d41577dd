//! Operators of the preview domains: attention with modifications, and optimisers.

use kiln_ir::ValueId;
use kiln_tensor::DType;
use smallvec::smallvec;

use super::attention::{repeat_heads, scores};
use super::cast::dtype_of;
use super::support::{Imported, one, operator};
use crate::import::{Item, Operator};
use crate::{Error, ModelGraph, NodeContext};

/// Operators of the domain `ai.onnx.preview`.
pub(super) const PREVIEW: &[Operator] = &[operator("FlexAttention", &[1], flex_attention)];

/// Operators of the domain `ai.onnx.preview.training`.
pub(super) const TRAINING: &[Operator] = &[
    operator("Adagrad", &[1], |ctx| optimised(ctx, 3, adagrad)),
    operator("Adam", &[1], |ctx| optimised(ctx, 4, adam)),
    operator("Momentum", &[1], |ctx| optimised(ctx, 3, momentum)),
];

/// Queries, keys and values of rank 4; graphs may change scores and probabilities.
fn flex_attention(ctx: &mut NodeContext<'_>) -> Imported {
    let (query, key, value) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let [_, heads, _, _] = ctx.dims_of_rank::<4>(0, query)?;
    let key = repeat_heads(ctx, key, heads)?;
    let value = repeat_heads(ctx, value, heads)?;
    let dtype = ctx.dtype(query)?;
    let precision = match ctx.attributes().get::<i64>("softmax_precision")? {
        Some(number) => dtype_of(ctx, number)?,
        None if dtype == DType::F64 => dtype,
        None => DType::F32,
    };
    let scores = scores(ctx, query, key)?;
    let scores = ctx.cast(scores, precision)?;
    let scores = modified(ctx, "score_mod", scores, precision)?;
    let weights = ctx.build(|builder| builder.softmax(scores, 3))?;
    let weights = modified(ctx, "prob_mod", weights, precision)?;
    let value_dtype = ctx.dtype(value)?;
    let value = ctx.cast(value, precision)?;
    let y = ctx.matmul(weights, value)?;
    one(ctx.cast(y, value_dtype)?)
}

/// The graph of an attribute applied to a value, if there is one.
fn modified(
    ctx: &mut NodeContext<'_>,
    attribute: &str,
    value: ValueId,
    dtype: DType,
) -> Result<ValueId, Error> {
    let Some(body) = ctx.attributes().get::<&ModelGraph>(attribute)? else {
        return Ok(value);
    };
    let results = ctx.import_round(body, &[Item::Tensor(value)])?;
    match results.as_slice() {
        [Item::Tensor(result)] => ctx.cast(*result, dtype),
        results => Err(ctx.attribute_error(attribute, "a graph with one result", results.len())),
    }
}

/// One tensor to optimise: learning rate, step, and then the tensor, its gradient and the state of earlier steps.
type Step = fn(&mut NodeContext<'_>, ValueId, ValueId, &[ValueId]) -> Result<Vec<ValueId>, Error>;

/// Operands are all tensors, then all gradients, and so on, `each` per tensor; results follow the same order, without
/// gradients.
fn optimised(ctx: &mut NodeContext<'_>, each: usize, step: Step) -> Imported {
    let (rate, time) = (ctx.input(0)?, ctx.input(1)?);
    let (rate, time) = (ctx.as_scalar(rate)?, ctx.as_scalar(time)?);
    let given = ctx.n_inputs().saturating_sub(2);
    if given == 0 || !given.is_multiple_of(each) {
        let expected = format!("{each} operands per tensor after the first two");
        return Err(ctx.operand_error(2, expected, given.to_string()));
    }
    let tensors = given / each;
    let mut results = vec![Vec::new(); each - 1];
    for tensor in 0..tensors {
        let operands = (0..each).map(|part| ctx.input(2 + part * tensors + tensor));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        for (all, new) in results.iter_mut().zip(step(ctx, rate, time, &operands)?) {
            all.push(Item::Tensor(new));
        }
    }
    let mut outputs = smallvec![];
    outputs.extend(results.into_iter().flatten());
    Ok(outputs)
}

fn number(ctx: &NodeContext<'_>, name: &str, default: f32) -> Result<f64, Error> {
    Ok(f64::from(ctx.attributes().get_or(name, default)?))
}

/// The gradient including that of the norm penalty.
fn regularised(ctx: &mut NodeContext<'_>, x: ValueId, gradient: ValueId) -> Result<ValueId, Error> {
    let coefficient = number(ctx, "norm_coefficient", 0.0)?;
    let penalty = ctx.scaled(x, coefficient)?;
    ctx.add(penalty, gradient)
}

fn adagrad(
    ctx: &mut NodeContext<'_>,
    rate: ValueId,
    time: ValueId,
    operands: &[ValueId],
) -> Result<Vec<ValueId>, Error> {
    let &[x, gradient, squares] = operands else {
        unreachable!("three operands per tensor");
    };
    let (decay, epsilon) = (
        number(ctx, "decay_factor", 0.0)?,
        number(ctx, "epsilon", 1e-6)?,
    );
    let time = ctx.cast(time, ctx.dtype(rate)?)?;
    let slower = ctx.scaled(time, decay)?;
    let slower = ctx.plus(slower, 1.0)?;
    let rate = ctx.div(rate, slower)?;
    let gradient = regularised(ctx, x, gradient)?;
    let square = ctx.mul(gradient, gradient)?;
    let squares = ctx.add(squares, square)?;
    let root = ctx.map("sqrt", &[squares])?;
    let root = ctx.plus(root, epsilon)?;
    let step = ctx.mul(rate, gradient)?;
    let step = ctx.div(step, root)?;
    Ok(vec![ctx.sub(x, step)?, squares])
}

fn adam(
    ctx: &mut NodeContext<'_>,
    rate: ValueId,
    time: ValueId,
    operands: &[ValueId],
) -> Result<Vec<ValueId>, Error> {
    let &[x, gradient, mean, squares] = operands else {
        unreachable!("four operands per tensor");
    };
    let (alpha, beta) = (number(ctx, "alpha", 0.9)?, number(ctx, "beta", 0.999)?);
    let epsilon = number(ctx, "epsilon", 1e-6)?;
    let after = number(ctx, "norm_coefficient_post", 0.0)?;
    let gradient = regularised(ctx, x, gradient)?;
    let square = ctx.mul(gradient, gradient)?;
    let mean = mixed(ctx, mean, gradient, alpha)?;
    let squares = mixed(ctx, squares, square, beta)?;
    let root = ctx.map("sqrt", &[squares])?;
    let root = ctx.plus(root, epsilon)?;
    // The initial bias of both means, except in step 0.
    let dtype = ctx.dtype(rate)?;
    let steps = ctx.cast(time, dtype)?;
    let (one, zero) = (ctx.scalar(dtype, 1.0)?, ctx.scalar(dtype, 0.0)?);
    let mut lacking = Vec::with_capacity(2);
    for factor in [alpha, beta] {
        let factor = ctx.scalar(dtype, factor)?;
        let power = ctx.map("pow", &[factor, steps])?;
        lacking.push(ctx.sub(one, power)?);
    }
    let numerator = ctx.map("sqrt", &[lacking[1]])?;
    let started = ctx.map("gt", &[steps, zero])?;
    let denominator = ctx.select(started, lacking[0], one)?;
    let factor = ctx.div(numerator, denominator)?;
    let factor = ctx.select(started, factor, one)?;
    let rate = ctx.mul(rate, factor)?;
    let direction = ctx.div(mean, root)?;
    let step = ctx.mul(rate, direction)?;
    let x = ctx.sub(x, step)?;
    Ok(vec![ctx.scaled(x, 1.0 - after)?, mean, squares])
}

/// `part * old + (1 - part) * new`.
fn mixed(
    ctx: &mut NodeContext<'_>,
    old: ValueId,
    new: ValueId,
    part: f64,
) -> Result<ValueId, Error> {
    let old = ctx.scaled(old, part)?;
    let new = ctx.scaled(new, 1.0 - part)?;
    ctx.add(old, new)
}

fn momentum(
    ctx: &mut NodeContext<'_>,
    rate: ValueId,
    time: ValueId,
    operands: &[ValueId],
) -> Result<Vec<ValueId>, Error> {
    let &[x, gradient, momentum] = operands else {
        unreachable!("three operands per tensor");
    };
    let (alpha, beta) = (number(ctx, "alpha", 0.0)?, number(ctx, "beta", 0.0)?);
    let nesterov = match ctx.attributes().get_or("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => {
            let expected = "\"standard\" or \"nesterov\"";
            return Err(ctx.attribute_error("mode", expected, other));
        }
    };
    let gradient = regularised(ctx, x, gradient)?;
    // In step 0 the gradient counts in full.
    let dtype = ctx.dtype(x)?;
    let (zero, one, beta) = (
        ctx.scalar_like(time, 0.0)?,
        ctx.scalar(dtype, 1.0)?,
        ctx.scalar(dtype, beta)?,
    );
    let started = ctx.map("gt", &[time, zero])?;
    let part = ctx.select(started, beta, one)?;
    let new = ctx.mul(part, gradient)?;
    let kept = ctx.scaled(momentum, alpha)?;
    let momentum = ctx.add(kept, new)?;
    let direction = if nesterov {
        let ahead = ctx.scaled(momentum, alpha)?;
        ctx.add(gradient, ahead)?
    } else {
        momentum
    };
    let step = ctx.mul(rate, direction)?;
    Ok(vec![ctx.sub(x, step)?, momentum])
}
