//! The results of an `if`: the sizes on which both branches agree.

use super::edges::{
    OpenType, check_parameters, escaping_symbols, expect_kind, expect_scalar, innermost_mut,
    parameters, region_error, visible,
};
use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use kiln_ir::ValueId;
use kiln_symbolic_shape::{Proof, SymbolId};
use kiln_tensor::DType;
use std::collections::BTreeSet;

/// The results of an `if`: the sizes on which both branches agree.
pub(crate) fn if_results(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
) -> Result<Vec<OpenType>, InferError> {
    expect_scalar(ctx, node, 0, DType::Bool)?;
    let &[first, second] = node.regions else {
        return Err(region_error(node, "regions", "2", node.regions.len()));
    };
    for region in [first, second] {
        check_parameters(
            ctx,
            node,
            node.operands.get(1..).unwrap_or_default(),
            &parameters(ctx, region),
        )?;
    }
    let (left, right) = (
        ctx.graph().region(first).results.clone(),
        ctx.graph().region(second).results.clone(),
    );
    if left.len() != right.len() {
        return Err(region_error(
            node,
            "results of the second branch",
            left.len(),
            right.len(),
        ));
    }
    let mut inner = escaping_symbols(ctx, first);
    inner.extend(escaping_symbols(ctx, second));
    let mut results = Vec::with_capacity(left.len());
    for (index, (left, right)) in left.into_iter().zip(right).enumerate() {
        results.push(joined(
            ctx,
            node,
            &format!("result {index} of the second branch"),
            (left, right),
            &inner,
        )?);
    }
    Ok(results)
}

/// The sizes on which two values agree.
fn joined(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    what: &str,
    (left, right): (ValueId, ValueId),
    inner: &BTreeSet<SymbolId>,
) -> Result<OpenType, InferError> {
    let (left, right) = (ctx.ty(left), ctx.ty(right));
    expect_kind(ctx, node, what, left, right)?;
    let mut ty = left.clone();
    let mut open = Vec::new();
    for (axis, (dim, &other)) in innermost_mut(&mut ty)
        .dims
        .iter_mut()
        .zip(&right.innermost().dims)
        .enumerate()
    {
        let equal = *dim == other || ctx.dims().equal(*dim, other) == Proof::Proved;
        match (equal, visible(ctx, *dim, inner), visible(ctx, other, inner)) {
            (true, true, _) => {}
            (true, false, true) => *dim = other,
            _ => open.push(axis),
        }
    }
    Ok(OpenType { ty, open })
}
