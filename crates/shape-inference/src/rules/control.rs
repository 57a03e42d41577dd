//! Control flow: the types at the edges of regions, and sizes that are known only after they ran.
//!
//! A result's size is that of the branches, or of the carried value, where it is proved to be one
//! size that is visible outside; otherwise it is a symbol that the op defines. Such symbols are
//! taken in order of results, then axes.

use crate::context::{Agreement, InferenceContext};
use crate::error::{InferError, InferErrorKind};
use crate::node::Node;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::{Op, RegionId, TensorType, Type, ValueId};
use kiln_symbolic_shape::{DimId, Proof, SymbolId};
use kiln_tensor::DType;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct ControlRule;

impl ShapeInferenceRule for ControlRule {
    fn name(&self) -> &str {
        "control"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::If | Op::Loop { .. })
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &Node<'_>,
    ) -> Result<Inferred, InferError> {
        let results = open_results(ctx, node)?;
        let open: usize = results.iter().map(|result| result.open.len()).sum();
        if open != node.symbols.len() {
            let expected =
                format!("a symbol for each of {open} sizes that are known only afterwards");
            return Err(node.attribute_error("symbols", expected, node.symbols.len()));
        }
        let mut symbols = node.symbols.iter().copied();
        let types = results.into_iter().map(|result| {
            let sizes = symbols
                .by_ref()
                .take(result.open.len())
                .map(|symbol| ctx.dims_mut().dim(symbol))
                .collect();
            result.filled(sizes)
        });
        Ok(Inferred::all(types))
    }

    fn validate(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &Node<'_>,
        stated: &[Type],
    ) -> Result<Inferred, InferError> {
        let results = open_results(ctx, node)?;
        if results.len() != stated.len() {
            let types: Vec<Type> = results.into_iter().map(|result| result.ty).collect();
            ctx.check_types(node, &types, stated)?;
            return Ok(Inferred::all(types));
        }
        for (index, (result, stated)) in results.into_iter().zip(stated).enumerate() {
            // A size that is open, or that the op defines anyway, is what is stated.
            let sizes = stated.innermost().dims.clone();
            let mut ty = result.ty;
            for (axis, dim) in innermost_mut(&mut ty).dims.iter_mut().enumerate() {
                let Some(&size) = sizes.get(axis) else {
                    continue;
                };
                let defined = ctx
                    .dims()
                    .as_symbol(size)
                    .is_some_and(|symbol| node.symbols.contains(&symbol));
                if defined {
                    *dim = size;
                } else if result.open.contains(&axis) {
                    return Err(node.attribute_error(
                        "symbols",
                        format!("a symbol of this op as size {axis} of result {index}"),
                        ctx.show(size),
                    ));
                }
            }
            ctx.check_type(node, &format!("result {index}"), &ty, stated)?;
        }
        Ok(Inferred::all(stated.iter().cloned()))
    }
}

/// The type of a result, some sizes of which are still open: the op has to define a symbol for each.
#[derive(Clone, Debug)]
pub(crate) struct OpenType {
    /// The type; sizes on open axes mean nothing.
    pub(crate) ty: Type,
    /// The axes, ascending.
    pub(crate) open: Vec<usize>,
}

impl OpenType {
    /// The type with `sizes` on the open axes.
    fn filled(mut self, sizes: Vec<DimId>) -> Type {
        let tensor = innermost_mut(&mut self.ty);
        for (axis, size) in self.open.into_iter().zip(sizes) {
            if let Some(dim) = tensor.dims.get_mut(axis) {
                *dim = size;
            }
        }
        self.ty
    }
}

fn open_results(
    ctx: &mut InferenceContext<'_>,
    node: &Node<'_>,
) -> Result<Vec<OpenType>, InferError> {
    match node.op {
        Op::If => if_results(ctx, node),
        Op::Loop { carried } => loop_results(ctx, node, *carried),
        _ => unreachable!("`can_infer` lists the ops"),
    }
}

/// The results of an `if`: the sizes on which both branches agree.
pub(crate) fn if_results(
    ctx: &mut InferenceContext<'_>,
    node: &Node<'_>,
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

/// The results of a `loop`: carried values, then stacked ones.
pub(crate) fn loop_results(
    ctx: &mut InferenceContext<'_>,
    node: &Node<'_>,
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
        node.operands.get(2..2 + carried),
        node.operands.get(2 + carried..),
    ) else {
        return Err(region_error(
            node,
            "operands",
            format!("at least {}", carried + 2),
            node.operands.len(),
        ));
    };
    let (Some(&iteration), Some(inside), Some(captured)) = (
        parameters.first(),
        parameters.get(1..=carried),
        parameters.get(1 + carried..),
    ) else {
        return Err(region_error(
            node,
            "parameters",
            1 + carried + captures.len(),
            parameters.len(),
        ));
    };
    let (Some(&condition), Some(next), Some(stacked)) = (
        yielded.first(),
        yielded.get(1..=carried),
        yielded.get(1 + carried..),
    ) else {
        return Err(region_error(
            node,
            "yielded values",
            format!("at least {}", carried + 1),
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

/// Every symbol that gets its value inside a region: nothing outside may read it.
fn escaping_symbols(ctx: &InferenceContext<'_>, region: RegionId) -> BTreeSet<SymbolId> {
    let graph = ctx.graph();
    let mut symbols = BTreeSet::new();
    let mut regions = vec![region];
    while let Some(region) = regions.pop() {
        let region = graph.region(region);
        symbols.extend(region.symbols.iter().copied());
        for &op in &region.ops {
            symbols.extend(graph.op(op).symbols.iter().copied());
            regions.extend(graph.op(op).regions.iter().copied());
        }
    }
    symbols
}

/// Whether a size can be read outside the region that defines the `inner` symbols.
fn visible(ctx: &InferenceContext<'_>, dim: DimId, inner: &BTreeSet<SymbolId>) -> bool {
    let mut seen = BTreeSet::new();
    let mut unseen = ctx.dims().symbols_in(dim);
    while let Some(symbol) = unseen.pop() {
        if inner.contains(&symbol) {
            return false;
        }
        if seen.insert(symbol)
            && let Some(definition) = ctx.dims().definition(symbol)
        {
            unseen.extend(ctx.dims().symbols_in(definition));
        }
    }
    true
}

/// The sizes on which two values agree.
fn joined(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
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

/// A carried value: the sizes that no iteration changes.
fn carried_result(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
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
    // Sizes with a symbol of their own per iteration may change; the others must not.
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

/// The number of iterations, if nothing but the trip count ends the loop and it is known.
fn trip_count(
    ctx: &mut InferenceContext<'_>,
    node: &Node<'_>,
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

fn parameters(ctx: &InferenceContext<'_>, region: RegionId) -> Vec<ValueId> {
    ctx.graph().region(region).parameters.clone()
}

fn check_parameters(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
    operands: &[ValueId],
    parameters: &[ValueId],
) -> Result<(), InferError> {
    if operands.len() != parameters.len() {
        return Err(region_error(
            node,
            "parameters for captures",
            operands.len(),
            parameters.len(),
        ));
    }
    for (index, (&operand, &parameter)) in operands.iter().zip(parameters).enumerate() {
        ctx.check_type(
            node,
            &format!("the parameter of capture {index}"),
            ctx.ty(operand),
            ctx.ty(parameter),
        )?;
    }
    Ok(())
}

fn expect_scalar(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
    index: usize,
    dtype: DType,
) -> Result<(), InferError> {
    let operand = ctx.tensor(node, index)?;
    if operand.dtype == dtype && operand.rank() == 0 {
        return Ok(());
    }
    let (expected, found) = (format!("{dtype}[]"), ctx.describe(node.operand(index)?));
    Err(node.error(InferErrorKind::Operand {
        index,
        expected,
        found,
    }))
}

fn expect_type(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
    what: &str,
    expected: &Type,
    value: ValueId,
) -> Result<(), InferError> {
    match ctx.compare(expected, ctx.ty(value)) {
        Agreement::Same => Ok(()),
        _ => Err(region_error(
            node,
            what,
            expected.display(ctx.dims()),
            ctx.ty(value).display(ctx.dims()),
        )),
    }
}

/// Whether both are alike but for sizes.
fn expect_kind(
    ctx: &InferenceContext<'_>,
    node: &Node<'_>,
    what: &str,
    expected: &Type,
    found: &Type,
) -> Result<(), InferError> {
    let sizes = expected.innermost().dims.clone();
    let mut resized = found.clone();
    let tensor = innermost_mut(&mut resized);
    if tensor.rank() == sizes.len() {
        tensor.dims = sizes;
    }
    if resized == *expected {
        return Ok(());
    }
    Err(region_error(
        node,
        what,
        expected.display(ctx.dims()),
        found.display(ctx.dims()),
    ))
}

fn region_error(
    node: &Node<'_>,
    what: &str,
    expected: impl ToString,
    found: impl ToString,
) -> InferError {
    let (expected, found) = (expected.to_string(), found.to_string());
    node.error(InferErrorKind::Region {
        what: what.to_owned(),
        expected,
        found,
    })
}

fn innermost_mut(ty: &mut Type) -> &mut TensorType {
    let mut ty = ty;
    loop {
        match ty {
            Type::Tensor(tensor) => return tensor,
            Type::Sequence(item) | Type::Optional(item) => ty = item,
        }
    }
}
