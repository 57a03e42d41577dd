//! Known elements under ops that only rearrange them.

use super::grid::{Grid, small_sizes, tabulate};
use crate::context::InferenceContext;
use crate::known::{Element, KnownValue};
use crate::node::OpView;
use kiln_ir::{Op, TensorType};
use kiln_symbolic_shape::DimId;

/// The elements of a reshape, broadcast, transpose, slice or concat; those of a pad are unknown.
pub(crate) fn of_movement(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    result: &TensorType,
) -> Option<KnownValue> {
    if let Op::Concat { axis } = node.op {
        return of_concat(ctx, node, *axis, result);
    }
    let known = ctx.known(*node.operands.first()?)?;
    let sizes = small_sizes(ctx, result)?;
    if matches!(node.op, Op::Reshape { .. }) {
        return (sizes.iter().product::<usize>() == known.len()).then(|| known.clone());
    }
    let operand = Grid::of_operand(ctx, node, 0)?;
    match node.op {
        Op::Broadcast { .. } => tabulate(&sizes, |position| operand.broadcast_at(position)),
        Op::Transpose { permutation } => tabulate(&sizes, |position| {
            let mut from = operand.sizes.clone();
            for (&axis, &index) in permutation.iter().zip(position) {
                from[axis] = index;
            }
            operand.at(&from)
        }),
        Op::Slice { starts, steps, .. } => {
            let starts: Vec<i64> = constants(ctx, starts)?;
            tabulate(&sizes, |position| {
                let index = |((&at, &start), (&step, &size)): ((&usize, &i64), (&i64, &usize))| {
                    let index = i64::try_from(at)
                        .ok()?
                        .checked_mul(step)?
                        .checked_add(start)?;
                    usize::try_from(index).ok().filter(|&index| index < size)
                };
                let from: Option<Vec<usize>> = position
                    .iter()
                    .zip(&starts)
                    .zip(steps.iter().zip(&operand.sizes))
                    .map(index)
                    .collect();
                from.map_or(Element::Unknown, |from| operand.at(&from))
            })
        }
        _ => None,
    }
}

fn of_concat(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    axis: usize,
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
    tabulate(&sizes, |position| {
        let mut position = position.to_vec();
        for operand in &operands {
            if position[axis] < operand.sizes[axis] {
                return operand.at(&position);
            }
            position[axis] -= operand.sizes[axis];
        }
        Element::Unknown
    })
}

/// The elements of a gather by constant indices.
pub(crate) fn of_gather(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    axis: usize,
    result: &TensorType,
) -> Option<KnownValue> {
    ctx.known(*node.operands.first()?)?;
    let sizes = small_sizes(ctx, result)?;
    let (operand, indices) = (
        Grid::of_operand(ctx, node, 0)?,
        Grid::of_operand(ctx, node, 1)?,
    );
    let size = *operand.sizes.get(axis)?;
    tabulate(&sizes, |position| {
        let (before, rest) = position.split_at(axis);
        let (at, after) = rest.split_at(indices.sizes.len());
        let index = indices
            .at(at)
            .as_dim()
            .and_then(|dim| ctx.dims().as_constant(dim));
        let Some(index) = index.and_then(|index| wrapped(index, size)) else {
            return Element::Unknown;
        };
        let from: Vec<usize> = before
            .iter()
            .copied()
            .chain([index])
            .chain(after.iter().copied())
            .collect();
        operand.at(&from)
    })
}

/// An index in `[-size, size)` as one in `[0, size)`.
fn wrapped(index: i64, size: usize) -> Option<usize> {
    let size = i64::try_from(size).ok()?;
    let index = if index < 0 { index + size } else { index };
    usize::try_from(index).ok().filter(|_| index < size)
}

fn constants(ctx: &InferenceContext<'_>, dims: &[DimId]) -> Option<Vec<i64>> {
    dims.iter()
        .map(|&dim| ctx.dims().as_constant(dim))
        .collect()
}
