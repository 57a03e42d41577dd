//! Known elements of element-wise functions and casts.

use super::grid::{Grid, small_sizes, tabulate};
use super::{integers, ratios};
use crate::context::InferenceContext;
use crate::known::{Element, KnownValue};
use crate::node::OpView;
use kiln_ir::TensorType;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

/// The elements of a scalar function.
pub(crate) fn of_map(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    name: &str,
    result: &TensorType,
) -> Option<KnownValue> {
    if node
        .operands
        .iter()
        .all(|&value| ctx.known(value).is_none())
    {
        return None;
    }
    let sizes = small_sizes(ctx, result)?;
    let operands: Vec<Grid> = (0..node.operands.len())
        .map(|index| Grid::of_operand(ctx, node, index))
        .collect::<Option<_>>()?;
    // A selection by a known condition needs only one side; all other functions need all operands.
    if name != "select" && !operands.iter().all(Grid::is_known) {
        return None;
    }
    let dtype = ctx.ty(*node.operands.last()?).as_tensor()?.dtype;
    tabulate(&sizes, |position| {
        let arguments: Vec<Element> = operands
            .iter()
            .map(|operand| operand.broadcast_at(position))
            .collect();
        element(ctx, node, dtype, name, &arguments)
    })
}

/// The elements of a cast.
pub(crate) fn of_cast(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    from: DType,
    to: DType,
) -> Option<KnownValue> {
    let known = ctx.known(*node.operands.first()?)?.clone();
    KnownValue::new(
        known
            .elements()
            .map(|element| cast(ctx, node, element, from, to))
            .collect(),
    )
}

fn element(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    dtype: DType,
    name: &str,
    arguments: &[Element],
) -> Element {
    if name == "select" {
        return select(ctx, arguments);
    }
    let integers: Option<Vec<DimId>> = arguments.iter().map(Element::as_dim).collect();
    match integers {
        Some(dims) => {
            integers::apply(ctx, node, dtype, name, &dims).map_or(Element::Unknown, Element::Dim)
        }
        None => {
            let ratios: Option<Vec<_>> = arguments
                .iter()
                .map(|argument| match argument {
                    Element::Ratio(ratio) => Some(ratio.clone()),
                    Element::Unknown | Element::Dim(_) => None,
                })
                .collect();
            ratios
                .and_then(|ratios| ratios::apply(ctx, name, &ratios))
                .map_or(Element::Unknown, Element::Ratio)
        }
    }
}

fn select(ctx: &InferenceContext<'_>, arguments: &[Element]) -> Element {
    let [condition, yes, no] = arguments else {
        return Element::Unknown;
    };
    match condition
        .as_dim()
        .and_then(|dim| ctx.dims().as_constant(dim))
    {
        Some(0) => no.clone(),
        Some(_) => yes.clone(),
        None if yes == no => yes.clone(),
        None => Element::Unknown,
    }
}

fn cast(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    element: Element,
    from: DType,
    to: DType,
) -> Element {
    let cast = match (element, to.is_float()) {
        (Element::Unknown, _) => None,
        (Element::Dim(dim), true) => Some(Element::Ratio(ratios::of_integer(dim))),
        (Element::Dim(dim), false) if to == DType::Bool => {
            integers::truth(ctx, dim).map(Element::Dim)
        }
        (Element::Dim(dim), false) => integers::fitted(ctx, node, to, dim).map(Element::Dim),
        (Element::Ratio(ratio), true) => {
            ratios::cast(ctx, node, ratio, from, to).map(Element::Ratio)
        }
        (Element::Ratio(_), false) if to == DType::Bool => None,
        (Element::Ratio(ratio), false) => ratios::truncated(ctx, node, ratio, from)
            .and_then(|dim| integers::fitted(ctx, node, to, dim))
            .map(Element::Dim),
    };
    cast.unwrap_or_default()
}
