//! Gradients inside a graph that is still being built.

use crate::activity::{Activity, expect_smooth_path, is_float};
use crate::adjoint::{Adjoint, Adjoints};
use crate::context::Context;
use crate::copy::Copy;
use crate::emit::zeros_like;
use crate::masks::Masks;
use crate::rules::{GradientRules, expect_own_gradients};
use crate::sweep::sweep;
use crate::{GradientError, Result};
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::GraphBuilder;

/// Appends the gradients of some values with respect to others, which may be any values of the body, to the graph being
/// built; returns them in order.
///
/// Each output has a cotangent of its type; an output without one must be a scalar, and its cotangent is 1. If no
/// output depends on a value, its gradient is zero. A loop that carries gradients runs once more, to stack its carried
/// values.
///
/// # Errors
/// As [`differentiate`](crate::differentiate).
pub fn append_gradients(
    b: &mut GraphBuilder,
    outputs: &[(ValueId, Option<ValueId>)],
    inputs: &[ValueId],
    rules: &GradientRules,
) -> Result<Vec<ValueId>> {
    let source = b.graph().clone();
    expect_own_gradients(&source)?;
    let values: Vec<ValueId> = outputs.iter().map(|&(output, _)| output).collect();
    for (kind, value) in values
        .iter()
        .map(|&value| ("output", value))
        .chain(inputs.iter().map(|&value| ("input", value)))
    {
        if !is_float(&source, value) {
            return Err(GradientError::NotFloat {
                kind,
                name: name_of(&source, value),
                found: source.ty(value).display(source.dims()).to_string(),
            });
        }
    }
    let activity = Activity::of(&source, &values, inputs);
    expect_smooth_path(&source, &values, inputs, &activity)?;
    let context = Context {
        source: &source,
        rules,
        activity,
        masks: Masks::of(&source),
    };
    let mut adjoints = Adjoints::keeping(inputs);
    for &(output, cotangent) in outputs {
        if !context.activity.is_active(output) {
            continue;
        }
        let value = match cotangent {
            Some(cotangent) => cotangent,
            None => one_for(b, &source, output)?,
        };
        let seed = Adjoint {
            value,
            is_masked: false,
        };
        adjoints.add(b, output, output, seed)?;
    }
    sweep(b, &context, source.body(), &Copy::identity(), &mut adjoints)?;
    inputs
        .iter()
        .map(|&input| match adjoints.get(input) {
            Some(adjoint) => Ok(adjoint.value),
            None => zeros_like(b, input),
        })
        .collect()
}

/// The cotangent of a scalar.
fn one_for(b: &mut GraphBuilder, source: &Graph, output: ValueId) -> Result<ValueId> {
    let ty = b.tensor(output)?;
    let is_one = |&dim: &_| b.dims().as_constant(dim) == Some(1);
    if !ty.dims.iter().all(is_one) {
        return Err(GradientError::NotScalar {
            name: name_of(source, output),
            found: source.ty(output).display(source.dims()).to_string(),
        });
    }
    Ok(b.scalar(ty.dtype, 1.0)?)
}

fn name_of(source: &Graph, value: ValueId) -> String {
    let name = source.value(value).name.as_deref();
    name.map_or_else(|| value.to_string(), |name| name.escape_debug().to_string())
}
