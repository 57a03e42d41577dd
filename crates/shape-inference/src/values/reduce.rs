//! Known elements of reductions of small integer tensors.

use super::grid::{Grid, small_sizes, tabulate};
use super::integers;
use crate::context::InferenceContext;
use crate::known::{Element, KnownValue};
use crate::node::OpView;
use kiln_ir::{ReduceFunction, TensorType};

/// The elements of a reduction over `axes`.
pub(crate) fn of_reduce(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    function: ReduceFunction,
    axes: &[usize],
    result: &TensorType,
) -> Option<KnownValue> {
    let (name, neutral) = match function {
        ReduceFunction::Sum => ("add", Some(0)),
        ReduceFunction::Product => ("mul", Some(1)),
        ReduceFunction::Max => ("max", None),
        ReduceFunction::Min => ("min", None),
        ReduceFunction::Any => ("or", Some(0)),
        ReduceFunction::All => ("and", Some(1)),
        ReduceFunction::Mean => return None,
    };
    let dtype = result.dtype;
    if dtype.is_float() {
        return None;
    }
    ctx.known(*node.operands.first()?)?;
    let sizes = small_sizes(ctx, result)?;
    let operand = Grid::of_operand(ctx, node, 0)?;
    let keep_dims = sizes.len() == operand.sizes.len();
    // How many elements are combined into one, and their positions along the reduced axes.
    let reduced: Vec<usize> = axes.iter().map(|&axis| operand.sizes[axis]).collect();
    let count: usize = reduced.iter().product();
    tabulate(&sizes, |position| {
        let mut from = operand.sizes.clone();
        let mut kept = position.iter().copied();
        for (axis, index) in from.iter_mut().enumerate() {
            *index = match (axes.contains(&axis), keep_dims) {
                (true, false) => 0,
                (_, _) => kept.next().unwrap_or(0),
            };
        }
        let mut acc = neutral.map(|value| ctx.dims_mut().constant(value));
        for element in 0..count {
            let mut rest = element;
            for (&axis, &size) in axes.iter().zip(&reduced).rev() {
                from[axis] = rest % size;
                rest /= size;
            }
            let Element::Dim(dim) = operand.at(&from) else {
                return Element::Unknown;
            };
            acc = match acc {
                None => Some(dim),
                Some(so_far) => match integers::apply(ctx, node, dtype, name, &[so_far, dim]) {
                    Some(dim) => Some(dim),
                    None => return Element::Unknown,
                },
            };
        }
        acc.map_or(Element::Unknown, Element::Dim)
    })
}
