//! Requirements of control ops at the boundaries of their regions, and the sizes that may leave a region.

use crate::context::{Agreement, InferenceContext};
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use kiln_ir::{RegionId, TensorType, Type, ValueId};
use kiln_symbolic_shape::{DimId, SymbolId};
use kiln_tensor::DType;
use std::collections::BTreeSet;

/// The type of a result some of whose sizes are still open: the op has to define a symbol for each.
#[derive(Clone, Debug)]
pub(crate) struct OpenType {
    /// The type; sizes on open axes are meaningless.
    pub(crate) ty: Type,
    /// The axes, ascending.
    pub(crate) open: Vec<usize>,
}

impl OpenType {
    /// The type with `sizes` on the open axes.
    pub(super) fn filled(mut self, sizes: Vec<DimId>) -> Type {
        let tensor = innermost_mut(&mut self.ty);
        for (axis, size) in self.open.into_iter().zip(sizes) {
            if let Some(dim) = tensor.dims.get_mut(axis) {
                *dim = size;
            }
        }
        self.ty
    }
}

/// Every symbol that gets its value inside a region: no op outside may read it.
pub(super) fn escaping_symbols(ctx: &InferenceContext<'_>, region: RegionId) -> BTreeSet<SymbolId> {
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
pub(super) fn visible(ctx: &InferenceContext<'_>, dim: DimId, inner: &BTreeSet<SymbolId>) -> bool {
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

pub(super) fn parameters(ctx: &InferenceContext<'_>, region: RegionId) -> Vec<ValueId> {
    ctx.graph().region(region).parameters.clone()
}

pub(super) fn check_parameters(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
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

pub(super) fn expect_scalar(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
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

pub(super) fn expect_type(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
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

/// Checks that both are equal except for sizes.
pub(super) fn expect_kind(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
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

pub(super) fn region_error(
    node: &OpView<'_>,
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

pub(super) fn innermost_mut(ty: &mut Type) -> &mut TensorType {
    let mut ty = ty;
    loop {
        match ty {
            Type::Tensor(tensor) => return tensor,
            Type::Sequence(item) | Type::Optional(item) => ty = item,
        }
    }
}
