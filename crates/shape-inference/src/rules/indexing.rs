//! Gathers and scatters. Indices are data: their bounds are checked at run time.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::values;
use kiln_ir::{Dims, Op, TensorType, Type};
use kiln_symbolic_shape::{DimId, Predicate, Proof};

#[derive(Debug)]
pub(super) struct IndexingRule;

impl ShapeInferenceRule for IndexingRule {
    fn name(&self) -> &str {
        "indexing"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Gather { .. }
                | Op::GatherElements { .. }
                | Op::GatherNd { .. }
                | Op::ScatterElements { .. }
                | Op::ScatterNd { .. }
                | Op::UpdateSlice { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let operand = ctx.tensor(node, 0)?;
        let indices = ctx.tensor(node, 1)?;
        if !indices.dtype.is_integer() {
            let (expected, found) = (
                "a tensor of integers".to_owned(),
                ctx.describe(node.operand(1)?),
            );
            return Err(node.error(InferErrorKind::Operand {
                index: 1,
                expected,
                found,
            }));
        }
        let dims = match node.op {
            Op::Gather { axis } => gather(node, &operand, &indices, *axis)?,
            Op::GatherElements { axis } => {
                node.expect_operands(2)?;
                check_elements(ctx, node, &operand, &indices, *axis)?;
                indices.dims.clone()
            }
            Op::GatherNd { batch_axes } => gather_nd(ctx, node, &operand, &indices, *batch_axes)?,
            Op::ScatterElements { axis, .. } => {
                scatter_elements(ctx, node, &operand, &indices, *axis)?;
                operand.dims.clone()
            }
            Op::ScatterNd { .. } => {
                scatter_nd(ctx, node, &operand, &indices)?;
                operand.dims.clone()
            }
            Op::UpdateSlice { axes } => {
                update_slice(ctx, node, &operand, &indices, axes)?;
                operand.dims.clone()
            }
            _ => unreachable!("`can_infer` lists the ops"),
        };
        let ty = TensorType {
            dtype: operand.dtype,
            dims,
        };
        let value = match node.op {
            Op::Gather { axis } => values::of_gather(ctx, node, *axis, &ty),
            _ => None,
        };
        Ok(Inferred::of(Type::Tensor(ty)).with_value(value))
    }
}

fn gather(
    node: &OpView<'_>,
    operand: &TensorType,
    indices: &TensorType,
    axis: usize,
) -> Result<Dims, InferError> {
    node.expect_operands(2)?;
    node.expect_axis("axis", axis, operand.rank())?;
    let (before, after) = operand.dims.split_at(axis);
    Ok(before
        .iter()
        .chain(&indices.dims)
        .chain(&after[1..])
        .copied()
        .collect())
}

/// `indices` replaces `operand` on every axis: at most as large on all but `axis`.
fn check_elements(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    indices: &TensorType,
    axis: usize,
) -> Result<(), InferError> {
    node.expect_axis("axis", axis, operand.rank())?;
    expect_rank(ctx, node, 1, indices, operand.rank())?;
    for (other, (&size, &index)) in operand.dims.iter().zip(&indices.dims).enumerate() {
        if other != axis && ctx.prove(&Predicate::LessEqual(index, size)) == Proof::Disproved {
            return Err(node.error(InferErrorKind::OutOfBounds {
                what: format!("size {other} of the indices"),
                operand: ctx.describe(node.operand(0)?),
                expected: format!("at most {}", ctx.show(size)),
                found: ctx.show(index),
            }));
        }
    }
    Ok(())
}

fn gather_nd(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    indices: &TensorType,
    batch_axes: usize,
) -> Result<Dims, InferError> {
    node.expect_operands(2)?;
    let (outer, depth) = addressed_axes(ctx, node, indices)?;
    if batch_axes > outer.len() || batch_axes > operand.rank() {
        let expected = format!("at most {}", outer.len().min(operand.rank()));
        return Err(node.attribute_error("batch_axes", expected, batch_axes));
    }
    for (axis, (&size, &index)) in operand.dims.iter().zip(outer).take(batch_axes).enumerate() {
        ctx.require_equal(
            node,
            &format!("sizes of batch axis {axis}"),
            (0, size),
            (1, index),
        )?;
    }
    let rest = rest_of(ctx, node, operand, batch_axes.saturating_add(depth))?;
    Ok(outer.iter().chain(rest).copied().collect())
}

fn scatter_elements(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    indices: &TensorType,
    axis: usize,
) -> Result<(), InferError> {
    node.expect_operands(3)?;
    ctx.same_dtype(node, 0, 2)?;
    check_elements(ctx, node, operand, indices, axis)?;
    let updates = ctx.tensor(node, 2)?;
    expect_sizes(ctx, node, &updates, &indices.dims)
}

fn scatter_nd(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    indices: &TensorType,
) -> Result<(), InferError> {
    node.expect_operands(3)?;
    ctx.same_dtype(node, 0, 2)?;
    let (outer, depth) = addressed_axes(ctx, node, indices)?;
    let rest = rest_of(ctx, node, operand, depth)?;
    let expected: Dims = outer.iter().chain(rest).copied().collect();
    let updates = ctx.tensor(node, 2)?;
    expect_sizes(ctx, node, &updates, &expected)
}

fn update_slice(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    at: &TensorType,
    axes: &[usize],
) -> Result<(), InferError> {
    node.expect_operands(3)?;
    ctx.same_dtype(node, 0, 2)?;
    axes.iter()
        .try_for_each(|&axis| node.expect_axis("axes", axis, operand.rank()))?;
    if !axes.is_sorted_by(|left, right| left < right) {
        return Err(node.attribute_error("axes", "ascending axes", format!("{axes:?}")));
    }
    expect_rank(ctx, node, 1, at, 1)?;
    let expected = ctx.dims_mut().constant(axes.len() as i64);
    for &found in &at.dims {
        ctx.require_equal(node, "positions, one per axis", (0, expected), (1, found))?;
    }
    let update = ctx.tensor(node, 2)?;
    expect_rank(ctx, node, 2, &update, operand.rank())?;
    let sizes = operand.dims.iter().zip(&update.dims).enumerate();
    for (axis, (&size, &given)) in sizes {
        if axes.contains(&axis) {
            if ctx.prove(&Predicate::LessEqual(given, size)) == Proof::Disproved {
                return Err(node.error(InferErrorKind::OutOfBounds {
                    what: format!("size {axis} of the update"),
                    operand: ctx.describe(node.operand(0)?),
                    expected: format!("at most {}", ctx.show(size)),
                    found: ctx.show(given),
                }));
            }
        } else {
            ctx.require_equal(
                node,
                &format!("sizes of axis {axis}"),
                (0, size),
                (2, given),
            )?;
        }
    }
    Ok(())
}

/// The updates have these sizes.
fn expect_sizes(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    updates: &TensorType,
    expected: &[DimId],
) -> Result<(), InferError> {
    expect_rank(ctx, node, 2, updates, expected.len())?;
    for (axis, (&expected, &found)) in expected.iter().zip(&updates.dims).enumerate() {
        ctx.require_equal(
            node,
            &format!("sizes of axis {axis}"),
            (1, expected),
            (2, found),
        )?;
    }
    Ok(())
}

/// The outer axes of indices whose last axis addresses several axes, and how many it addresses.
fn addressed_axes<'i>(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    indices: &'i TensorType,
) -> Result<(&'i [DimId], usize), InferError> {
    let known = indices.dims.split_last().and_then(|(&last, outer)| {
        let depth = usize::try_from(ctx.dims().range(last).as_point()?).ok()?;
        Some((outer, depth))
    });
    match known {
        Some(known) => Ok(known),
        None => Err(node.error(InferErrorKind::Operand {
            index: 1,
            expected: "indices whose innermost size is known".to_owned(),
            found: ctx.describe(node.operand(1)?),
        })),
    }
}

/// The operand's axes that are not addressed.
fn rest_of<'o>(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &'o TensorType,
    addressed: usize,
) -> Result<&'o [DimId], InferError> {
    match operand.dims.get(addressed..) {
        Some(rest) => Ok(rest),
        None => Err(node.error(InferErrorKind::Operand {
            index: 1,
            expected: format!("indices that address at most {} axes", operand.rank()),
            found: ctx.describe(node.operand(1)?),
        })),
    }
}

fn expect_rank(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    index: usize,
    operand: &TensorType,
    rank: usize,
) -> Result<(), InferError> {
    if operand.rank() == rank {
        return Ok(());
    }
    let (expected, found) = (
        format!("a tensor of rank {rank}"),
        ctx.describe(node.operand(index)?),
    );
    Err(node.error(InferErrorKind::Operand {
        index,
        expected,
        found,
    }))
}
