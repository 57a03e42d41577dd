//! The reverse sweep over a region: cotangents from the results of each op to its operands.

use crate::adjoint::{Adjoint, Adjoints};
use crate::context::Context;
use crate::copy::Copy;
use crate::rules::{GradientContext, Rule, Softmax};
use crate::{Result, control};
use kiln_ir::{Op, OpData, OpId, RegionId};
use kiln_shape_inference::{GraphBuilder, OpView};

/// Propagates cotangents of a region's values to its parameters. `copy` is the copy of the region whose values are read.
pub(crate) fn sweep(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    region: RegionId,
    copy: &Copy,
    adjoints: &mut Adjoints,
) -> Result<()> {
    for &op in context.source.region(region).ops.iter().rev() {
        let data = context.source.op(op);
        let results: Vec<Option<Adjoint>> = data
            .results
            .iter()
            .map(|&result| adjoints.take(result))
            .collect();
        if results.iter().all(Option::is_none) {
            continue;
        }
        if let Some(origin) = data.origin.as_deref() {
            b.origin(origin);
        }
        let swept = match Softmax::of(context, region, data) {
            Some(softmax) => reverse_softmax(b, context, (softmax, data), copy, &results, adjoints),
            None => reverse(b, context, (op, data), copy, &results, adjoints),
        };
        b.clear_origin();
        swept.map_err(|error| error.at(|| OpView::of_op(data).label()))?;
    }
    Ok(())
}

/// Adds the cotangent of a softmax's exponent, past the ops between the two.
fn reverse_softmax(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    (softmax, data): (Softmax<'_>, &OpData),
    copy: &Copy,
    results: &[Option<Adjoint>],
    adjoints: &mut Adjoints,
) -> Result<()> {
    let exponent = softmax.exponent;
    let (&[Some(upstream)], &[result]) = (results, data.results.as_slice()) else {
        return Ok(());
    };
    if context.activity.is_active(exponent) {
        let cotangent = softmax.cotangent(b, copy.value(result), upstream)?;
        adjoints.add(b, exponent, copy.value(exponent), cotangent)?;
    }
    Ok(())
}

/// Adds the cotangents of an op's operands.
fn reverse(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    (op, data): (OpId, &OpData),
    copy: &Copy,
    results: &[Option<Adjoint>],
    adjoints: &mut Adjoints,
) -> Result<()> {
    let cotangents = match data.op {
        Op::If => control::reverse_if(b, context, data, copy, results)?,
        Op::Loop { carried } => {
            control::reverse_loop(b, context, (op, data), carried, copy, results)?
        }
        _ => {
            let operands = copy.values(&data.operands);
            let values = copy.values(&data.results);
            let wanted: Vec<bool> = data
                .operands
                .iter()
                .map(|&operand| context.activity.is_active(operand))
                .collect();
            let rule = Rule {
                data,
                operands: &operands,
                results: &values,
                cotangents: results,
                wanted: &wanted,
            };
            GradientContext::new(b, context, rule).cotangents()?
        }
    };
    for (&operand, cotangent) in data.operands.iter().zip(cotangents) {
        let Some(cotangent) = cotangent else { continue };
        if context.activity.is_active(operand) {
            adjoints.add(b, operand, copy.value(operand), cotangent)?;
        }
    }
    Ok(())
}
