//! Data movement: reshape, broadcast, transpose, slice, pad, concat.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::values;
use kiln_ir::{Dims, Op, PadMode, TensorType, Type};
use kiln_symbolic_shape::{DimId, Predicate, Proof};

#[derive(Debug)]
pub(super) struct MovementRule;

impl ShapeInferenceRule for MovementRule {
    fn name(&self) -> &str {
        "movement"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Reshape { .. }
                | Op::Broadcast { .. }
                | Op::Transpose { .. }
                | Op::Slice { .. }
                | Op::Pad { .. }
                | Op::Concat { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let operand = ctx.tensor(node, 0)?;
        let dims = match node.op {
            Op::Reshape { dims } => reshape(ctx, node, &operand, dims)?,
            Op::Broadcast { dims } => broadcast(ctx, node, &operand, dims)?,
            Op::Transpose { permutation } => transpose(node, &operand, permutation)?,
            Op::Slice {
                starts,
                sizes,
                steps,
            } => slice(ctx, node, &operand, starts, sizes, steps)?,
            Op::Pad { low, high, mode } => pad(ctx, node, &operand, (low, high), *mode)?,
            Op::Concat { axis } => concat(ctx, node, &operand, *axis)?,
            _ => unreachable!("`can_infer` lists the ops"),
        };
        let ty = TensorType {
            dtype: operand.dtype,
            dims,
        };
        let value = values::of_movement(ctx, node, &ty);
        Ok(Inferred::of(Type::Tensor(ty)).with_value(value))
    }
}

fn reshape(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    dims: &[DimId],
) -> Result<Dims, InferError> {
    node.expect_operands(1)?;
    for (axis, &dim) in dims.iter().enumerate() {
        ctx.check_size(node, &format!("size {axis}"), dim)?;
    }
    let (from, to) = (operand.dims.to_vec(), dims.to_vec());
    if ctx.require(
        node,
        Predicate::ProductEqual(from, to),
        "number of elements",
    )? {
        return Ok(dims.into());
    }
    let product =
        |ctx: &mut InferenceContext<'_>, dims: &[DimId]| match ctx.dims_mut().product(dims) {
            Ok(product) => ctx.show(product),
            Err(error) => error.to_string(),
        };
    Err(node.error(InferErrorKind::Reshape {
        operand: ctx.describe(node.operand(0)?),
        to: ctx.dims().display_shape(dims).to_string(),
        expected: product(ctx, &operand.dims),
        found: product(ctx, dims),
    }))
}

fn broadcast(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    dims: &[DimId],
) -> Result<Dims, InferError> {
    node.expect_operands(1)?;
    let Some(skipped) = dims.len().checked_sub(operand.rank()) else {
        return Err(node.attribute_error(
            "dims",
            format!("at least {} sizes", operand.rank()),
            dims.len(),
        ));
    };
    let one = ctx.dims_mut().constant(1);
    for (&from, &to) in operand.dims.iter().zip(dims.iter().skip(skipped)) {
        if from == to || ctx.dims().equal(from, one) == Proof::Proved {
            continue;
        }
        let never_equal = ctx.dims().equal(from, to) == Proof::Disproved;
        if never_equal && ctx.dims().equal(from, one) == Proof::Disproved {
            return Err(node.error(InferErrorKind::Broadcast {
                left: ctx.describe(node.operand(0)?),
                right: ctx.dims().display_shape(dims).to_string(),
                left_size: ctx.show(from),
                right_size: ctx.show(to),
            }));
        }
        ctx.expect_equal(node, from, to);
    }
    for (axis, &dim) in dims.iter().enumerate() {
        ctx.check_size(node, &format!("size {axis}"), dim)?;
    }
    Ok(dims.into())
}

fn transpose(
    node: &OpView<'_>,
    operand: &TensorType,
    permutation: &[usize],
) -> Result<Dims, InferError> {
    node.expect_operands(1)?;
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..operand.rank()) {
        let expected = format!("each of {} axes once", operand.rank());
        return Err(node.attribute_error("permutation", expected, format!("{permutation:?}")));
    }
    Ok(permutation
        .iter()
        .filter_map(|&axis| operand.dims.get(axis).copied())
        .collect())
}

fn slice(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    starts: &[DimId],
    sizes: &[DimId],
    steps: &[i64],
) -> Result<Dims, InferError> {
    node.expect_operands(1)?;
    node.expect_length("starts", starts.len(), operand.rank())?;
    node.expect_length("sizes", sizes.len(), operand.rank())?;
    node.expect_length("steps", steps.len(), operand.rank())?;
    let one = ctx.dims_mut().constant(1);
    let zero = ctx.dims_mut().constant(0);
    for (axis, (((&dim, &start), &size), &step)) in operand
        .dims
        .iter()
        .zip(starts)
        .zip(sizes)
        .zip(steps)
        .enumerate()
    {
        if step == 0 {
            return Err(node.attribute_error("steps", "steps that are not 0", step));
        }
        ctx.check_size(node, &format!("size {axis}"), size)?;
        let whole = start == zero && size == dim && step == 1;
        if whole || ctx.dims().range(size).min.is_none_or(|min| min < 1) {
            continue;
        }
        // At least one element is read; the first and last index decide whether it is in bounds.
        let step = ctx.dims_mut().constant(step);
        let reach = ctx
            .dims_mut()
            .sub(size, one)
            .and_then(|steps| ctx.dims_mut().mul(steps, step));
        let last = reach.and_then(|reach| ctx.dims_mut().add(start, reach));
        for (what, index) in [("first", start), ("last", node.size(last)?)] {
            let below = ctx.prove(&Predicate::Less(index, dim)) == Proof::Disproved;
            if below || ctx.prove(&Predicate::LessEqual(zero, index)) == Proof::Disproved {
                return Err(node.error(InferErrorKind::OutOfBounds {
                    what: format!("the {what} index on axis {axis}"),
                    operand: ctx.describe(node.operand(0)?),
                    expected: format!("an index in [0, {})", ctx.show(dim)),
                    found: ctx.show(index),
                }));
            }
        }
    }
    Ok(sizes.into())
}

fn pad(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &TensorType,
    (low, high): (&[DimId], &[DimId]),
    mode: PadMode,
) -> Result<Dims, InferError> {
    node.expect_operands(2)?;
    node.expect_length("low", low.len(), operand.rank())?;
    node.expect_length("high", high.len(), operand.rank())?;
    if ctx.tensor(node, 1)?.rank() != 0 {
        let (expected, found) = ("a scalar".to_owned(), ctx.describe(node.operand(1)?));
        return Err(node.error(InferErrorKind::Operand {
            index: 1,
            expected,
            found,
        }));
    }
    if mode == PadMode::Constant {
        ctx.same_dtype(node, 0, 1)?;
    }
    let mut dims = Dims::with_capacity(operand.rank());
    for (axis, ((&dim, &low), &high)) in operand.dims.iter().zip(low).zip(high).enumerate() {
        ctx.check_size(node, &format!("the padding before axis {axis}"), low)?;
        ctx.check_size(node, &format!("the padding after axis {axis}"), high)?;
        dims.push(node.size(ctx.dims_mut().sum(&[low, dim, high]))?);
    }
    Ok(dims)
}

fn concat(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    first: &TensorType,
    axis: usize,
) -> Result<Dims, InferError> {
    node.expect_axis("axis", axis, first.rank())?;
    let mut along = Vec::with_capacity(node.operands.len());
    let mut dims = first.dims.clone();
    for index in 0..node.operands.len() {
        let operand = ctx.tensor(node, index)?;
        ctx.same_dtype(node, 0, index)?;
        if operand.rank() != first.rank() {
            return Err(node.error(InferErrorKind::Operand {
                index,
                expected: format!("a tensor of rank {}, as operand 0", first.rank()),
                found: ctx.describe(node.operand(index)?),
            }));
        }
        for (other, (dim, &found)) in dims.iter_mut().zip(&operand.dims).enumerate() {
            if other == axis {
                along.push(found);
                continue;
            }
            ctx.require_equal(
                node,
                &format!("sizes of axis {other}"),
                (0, *dim),
                (index, found),
            )?;
            // They are equal from here on; a constant carries more information than a symbol.
            if ctx.dims().as_constant(found).is_some() {
                *dim = found;
            }
        }
    }
    let sum = node.size(ctx.dims_mut().sum(&along))?;
    if let Some(dim) = dims.get_mut(axis) {
        *dim = sum;
    }
    Ok(dims)
}
