//! Contractions: matmul with broadcast batch axes, convolution, transposed convolution.

use super::window::{check_window, extent};
use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::{Dims, Op, TensorType, Type, Window};
use kiln_symbolic_shape::{DimId, Predicate};
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct ContractionRule;

impl ShapeInferenceRule for ContractionRule {
    fn name(&self) -> &str {
        "contraction"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Matmul { .. } | Op::Conv { .. } | Op::ConvTranspose { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        node.expect_operands(2)?;
        let (left, right) = (ctx.tensor(node, 0)?, ctx.tensor(node, 1)?);
        let (dtype, dims) = match node.op {
            Op::Matmul { out } => {
                check_dtypes(ctx, node, *out)?;
                (*out, matmul(ctx, node, &left, &right)?)
            }
            Op::Conv {
                window,
                groups,
                out,
            } => {
                check_dtypes(ctx, node, *out)?;
                (*out, conv(ctx, node, &left, &right, window, *groups)?)
            }
            Op::ConvTranspose {
                window,
                output_padding,
                groups,
            } => {
                ctx.same_dtype(node, 0, 1)?;
                (
                    left.dtype,
                    conv_transpose(ctx, node, (&left, &right), window, output_padding, *groups)?,
                )
            }
            _ => unreachable!("`can_infer` lists the ops"),
        };
        Ok(Inferred::of(Type::tensor(dtype, dims)))
    }
}

/// Operands are of the result's dtype, or narrower integers accumulated in i32 or i64.
fn check_dtypes(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    out: DType,
) -> Result<(), InferError> {
    let dtypes = [ctx.tensor(node, 0)?.dtype, ctx.tensor(node, 1)?.dtype];
    let narrow = |dtype: DType| dtype.is_integer() && dtype.bits() <= 16;
    if matches!(out, DType::I32 | DType::I64) && dtypes.into_iter().all(narrow) {
        return Ok(());
    }
    match dtypes.into_iter().position(|dtype| dtype != out) {
        None => Ok(()),
        Some(index) => Err(node.error(InferErrorKind::Operand {
            index,
            expected: format!("a tensor of {out}, as the result"),
            found: ctx.describe(node.operand(index)?),
        })),
    }
}

fn matmul(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    left: &TensorType,
    right: &TensorType,
) -> Result<Dims, InferError> {
    let [left_batch @ .., rows, left_inner] = left.dims.as_slice() else {
        return Err(expected_rank(ctx, node, 0, "rank 2 or more"));
    };
    let [right_batch @ .., right_inner, columns] = right.dims.as_slice() else {
        return Err(expected_rank(ctx, node, 1, "rank 2 or more"));
    };
    ctx.require_equal(node, "inner sizes", (0, *left_inner), (1, *right_inner))?;
    let mut dims = ctx.broadcast(node, (0, left_batch), (1, right_batch))?;
    dims.extend([*rows, *columns]);
    Ok(dims)
}

fn conv(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    input: &TensorType,
    weights: &TensorType,
    window: &Window,
    groups: usize,
) -> Result<Dims, InferError> {
    let (input_spatial, kernel) = check_convolution(ctx, node, input, weights, window)?;
    let group_count = group_count(ctx, node, groups)?;
    // `check_convolution` ensured two axes before the spatial ones.
    let (batch, channels, filters, group_channels) = (
        input.dims[0],
        input.dims[1],
        weights.dims[0],
        weights.dims[1],
    );
    let all_channels = node.size(ctx.dims_mut().mul(group_channels, group_count))?;
    ctx.require_equal(node, "channels", (1, all_channels), (0, channels))?;
    require_divides(ctx, node, groups, filters)?;
    let mut dims = Dims::from_slice(&[batch, filters]);
    for (axis, (&size, &kernel)) in input_spatial.iter().zip(kernel).enumerate() {
        dims.push(extent(ctx, node, window, axis, size, kernel)?);
    }
    Ok(dims)
}

fn conv_transpose(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    (input, weights): (&TensorType, &TensorType),
    window: &Window,
    output_padding: &[DimId],
    groups: usize,
) -> Result<Dims, InferError> {
    let (input_spatial, kernel) = check_convolution(ctx, node, input, weights, window)?;
    node.expect_length(
        "output_padding",
        output_padding.len(),
        window.spatial_rank(),
    )?;
    let group_count = group_count(ctx, node, groups)?;
    let (batch, channels) = (input.dims[0], input.dims[1]);
    ctx.require_equal(node, "channels", (1, weights.dims[0]), (0, channels))?;
    require_divides(ctx, node, groups, channels)?;
    let filters = node.size(ctx.dims_mut().mul(weights.dims[1], group_count))?;
    let mut dims = Dims::from_slice(&[batch, filters]);
    for (axis, (&size, &kernel)) in input_spatial.iter().zip(kernel).enumerate() {
        let added = ctx.check_size(
            node,
            &format!("output padding {axis}"),
            output_padding[axis],
        )?;
        let table = ctx.dims_mut();
        let one = table.constant(1);
        let stride = table.constant(window.strides[axis]);
        let dilation = table.constant(window.dilations[axis]);
        // (size - 1) * stride + (kernel - 1) * dilation + 1 + output padding - low - high
        let steps = node.size(table.sub(size, one))?;
        let steps = node.size(table.mul(steps, stride))?;
        let reach = node.size(table.sub(kernel, one))?;
        let reach = node.size(table.mul(reach, dilation))?;
        let full = node.size(table.sum(&[steps, reach, one, added]))?;
        let cut = node.size(table.add(window.low[axis], window.high[axis]))?;
        let dim = node.size(table.sub(full, cut))?;
        dims.push(ctx.check_size(node, &format!("the result's spatial size {axis}"), dim)?);
    }
    Ok(dims)
}

/// Checks ranks and the window; returns the spatial sizes of both operands.
fn check_convolution<'t>(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    input: &'t TensorType,
    weights: &'t TensorType,
    window: &Window,
) -> Result<(&'t [DimId], &'t [DimId]), InferError> {
    let spatial = check_window(ctx, node, input, window)?;
    if weights.rank() != input.rank() {
        return Err(expected_rank(
            ctx,
            node,
            1,
            &format!("rank {}, as the input", input.rank()),
        ));
    }
    Ok((spatial, &weights.dims[2..]))
}

fn group_count(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    groups: usize,
) -> Result<DimId, InferError> {
    match i64::try_from(groups) {
        Ok(count) if count > 0 => Ok(ctx.dims_mut().constant(count)),
        _ => Err(node.attribute_error("groups", "at least 1", groups)),
    }
}

fn require_divides(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    groups: usize,
    dim: DimId,
) -> Result<(), InferError> {
    let divisor = i64::try_from(groups).unwrap_or(i64::MAX);
    if divisor == 1 || ctx.require(node, Predicate::Divides { divisor, dim }, "groups")? {
        return Ok(());
    }
    Err(node.attribute_error("groups", format!("a divisor of {}", ctx.show(dim)), groups))
}

fn expected_rank(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    index: usize,
    rank: &str,
) -> InferError {
    let found = node
        .operands
        .get(index)
        .map(|&value| ctx.describe(value))
        .unwrap_or_default();
    node.error(InferErrorKind::Operand {
        index,
        expected: format!("a tensor of {rank}"),
        found,
    })
}
