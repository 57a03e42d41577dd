//! The results of a `loop`: carried values with the sizes that no iteration changes, then stacked values.

use super::edges::{
    OpenType, check_parameters, escaping_symbols, expect_kind, expect_scalar, expect_type,
    innermost_mut, parameters, region_error, visible,
};
use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use kiln_ir::{RegionId, Type, ValueId};
use kiln_symbolic_shape::{DimId, SymbolId};
use kiln_tensor::DType;
use std::collections::BTreeSet;

/// The results of a `loop`: carried values, then stacked ones.
pub(crate) fn loop_results(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    carried: usize,
) -> Result<Vec<OpenType>, InferError> {
    expect_scalar(ctx, node, 0, DType::I64)?;
    expect_scalar(ctx, node, 1, DType::Bool)?;
    let &[region] = node.regions else {
        return Err(region_error(node, "regions", "1", node.regions.len()));
    };
    let parameters = parameters(ctx, region);
    let yielded = ctx.graph().region(region).results.clone();
    let (Some(initial), Some(captures)) = (
        node.operands.get(2..carried.saturating_add(2)),
        node.operands.get(carried.saturating_add(2)..),
    ) else {
        return Err(region_error(
            node,
            "operands",
            format!("at least {}", carried.saturating_add(2)),
            node.operands.len(),
        ));
    };
    let (Some(&iteration), Some(inside), Some(captured)) = (
        parameters.first(),
        parameters.get(1..=carried),
        parameters.get(carried.saturating_add(1)..),
    ) else {
        return Err(region_error(
            node,
            "parameters",
            carried.saturating_add(1).saturating_add(captures.len()),
            parameters.len(),
        ));
    };
    let (Some(&condition), Some(next), Some(stacked)) = (
        yielded.first(),
        yielded.get(1..=carried),
        yielded.get(carried.saturating_add(1)..),
    ) else {
        return Err(region_error(
            node,
            "yielded values",
            format!("at least {}", carried.saturating_add(1)),
            yielded.len(),
        ));
    };
    expect_type(
        ctx,
        node,
        "the iteration parameter",
        &Type::tensor(DType::I64, []),
        iteration,
    )?;
    expect_type(
        ctx,
        node,
        "the yielded condition",
        &Type::tensor(DType::Bool, []),
        condition,
    )?;
    check_parameters(ctx, node, captures, captured)?;
    let inner = escaping_symbols(ctx, region);
    let mut results = Vec::with_capacity(yielded.len());
    for (index, ((&initial, &inside), &next)) in initial.iter().zip(inside).zip(next).enumerate() {
        results.push(carried_result(
            ctx,
            node,
            index,
            region,
            (initial, inside, next),
            &inner,
        )?);
    }
    let trips = trip_count(ctx, node, condition)?;
    for (index, &each) in stacked.iter().enumerate() {
        let Type::Tensor(each) = ctx.ty(each).clone() else {
            let found = ctx.ty(each).display(ctx.dims()).to_string();
            return Err(region_error(
                node,
                &format!("stacked value {index}"),
                "a tensor",
                found,
            ));
        };
        let mut open: Vec<usize> = if trips.is_some() { Vec::new() } else { vec![0] };
        open.extend(
            (0..each.rank())
                .filter(|&axis| !visible(ctx, each.dims[axis], &inner))
                .map(|axis| axis + 1),
        );
        let placeholder = ctx.dims_mut().constant(0);
        let sizes = [trips.unwrap_or(placeholder)]
            .into_iter()
            .chain(each.dims.iter().copied());
        results.push(OpenType {
            ty: Type::tensor(each.dtype, sizes),
            open,
        });
    }
    Ok(results)
}

/// A carried value: the sizes that no iteration changes.
fn carried_result(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    index: usize,
    region: RegionId,
    (initial, inside, next): (ValueId, ValueId, ValueId),
    inner: &BTreeSet<SymbolId>,
) -> Result<OpenType, InferError> {
    let what = format!("carried value {index}");
    let (initial, inside, next) = (ctx.ty(initial), ctx.ty(inside), ctx.ty(next));
    expect_kind(ctx, node, &what, initial, inside)?;
    expect_kind(ctx, node, &what, inside, next)?;
    let entry = &ctx.graph().region(region).symbols;
    let mut open = Vec::new();
    // Sizes with a per-iteration symbol may change; the others must not.
    let mut before = initial.clone();
    let mut after = next.clone();
    let own = innermost_mut(&mut before)
        .dims
        .iter_mut()
        .zip(&mut innermost_mut(&mut after).dims);
    for (axis, ((before, after), &dim)) in own.zip(&inside.innermost().dims).enumerate() {
        if ctx
            .dims()
            .as_symbol(dim)
            .is_some_and(|symbol| entry.contains(&symbol))
        {
            (*before, *after) = (dim, dim);
            open.push(axis);
        } else if !visible(ctx, dim, inner) {
            let found = ctx.show(dim);
            return Err(region_error(
                node,
                &format!("size {axis} of {what}"),
                "a bare symbol of the region",
                found,
            ));
        }
    }
    ctx.check_type(node, &format!("the parameter of {what}"), &before, inside)?;
    ctx.check_type(node, &format!("the yielded {what}"), inside, &after)?;
    Ok(OpenType {
        ty: inside.clone(),
        open,
    })
}

/// The number of iterations, if only the trip count ends the loop and it is known.
fn trip_count(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    yielded: ValueId,
) -> Result<Option<DimId>, InferError> {
    let truth = |value: ValueId| {
        let dim = ctx.known(value)?.element(0).as_dim()?;
        ctx.dims().as_constant(dim)
    };
    if truth(node.operand(1)?) != Some(1) || truth(yielded) != Some(1) {
        return Ok(None);
    }
    let Some(trips) = ctx
        .known(node.operand(0)?)
        .and_then(|known| known.element(0).as_dim())
    else {
        return Ok(None);
    };
    if ctx.is_non_negative(trips) {
        return Ok(Some(trips));
    }
    let zero = ctx.dims_mut().constant(0);
    node.size(ctx.dims_mut().max(trips, zero)).map(Some)
}
