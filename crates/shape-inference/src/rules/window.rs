//! Sliding windows over spatial axes: pooling, and the size formula shared with convolution.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::{Dims, Op, TensorType, Type, Window};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct WindowRule;

impl ShapeInferenceRule for WindowRule {
    fn name(&self) -> &str {
        "window"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::Pool { .. } | Op::ArgPool { .. })
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let (Op::Pool { size, window, .. } | Op::ArgPool { size, window }) = node.op else {
            unreachable!("`can_infer` lists the ops")
        };
        node.expect_operands(1)?;
        let operand = ctx.tensor(node, 0)?;
        let spatial = check_window(ctx, node, &operand, window)?;
        node.expect_length("size", size.len(), window.spatial_rank())?;
        let mut dims = Dims::from_slice(&operand.dims[..2]);
        for (axis, (&dim, &kernel)) in spatial.iter().zip(size).enumerate() {
            if kernel < 1 {
                return Err(node.attribute_error("size", "sizes of at least 1", kernel));
            }
            let kernel = ctx.dims_mut().constant(kernel);
            dims.push(extent(ctx, node, window, axis, dim, kernel)?);
        }
        let dtype = match node.op {
            Op::ArgPool { .. } => DType::I64,
            _ => operand.dtype,
        };
        Ok(Inferred::of(Type::tensor(dtype, dims)))
    }
}

/// Checks a window against its operand; returns the operand's spatial sizes, one per axis of the window.
pub(super) fn check_window<'t>(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    operand: &'t TensorType,
    window: &Window,
) -> Result<&'t [DimId], InferError> {
    let Some(spatial) = operand.dims.get(2..) else {
        let (expected, found) = (
            "a tensor of rank 2 or more".to_owned(),
            ctx.describe(node.operand(0)?),
        );
        return Err(node.error(InferErrorKind::Operand {
            index: 0,
            expected,
            found,
        }));
    };
    node.expect_length("strides", window.strides.len(), spatial.len())?;
    node.expect_length("dilations", window.dilations.len(), spatial.len())?;
    node.expect_length("low", window.low.len(), spatial.len())?;
    node.expect_length("high", window.high.len(), spatial.len())?;
    for (name, steps) in [
        ("strides", &window.strides),
        ("dilations", &window.dilations),
    ] {
        if let Some(step) = steps.iter().find(|&&step| step < 1) {
            return Err(node.attribute_error(name, "steps of at least 1", step));
        }
    }
    Ok(spatial)
}

/// The number of windows along an axis: `(size + low + high - dilation * (kernel - 1) - 1) / stride + 1`, floored.
///
/// A negative number of windows is a fault at run time, unless it is negative on every call.
pub(super) fn extent(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    window: &Window,
    axis: usize,
    size: DimId,
    kernel: DimId,
) -> Result<DimId, InferError> {
    let table = ctx.dims_mut();
    let one = table.constant(1);
    let stride = table.constant(window.strides[axis]);
    let dilation = table.constant(window.dilations[axis]);
    let padded = node.size(table.sum(&[size, window.low[axis], window.high[axis]]))?;
    let reach = node.size(table.sub(kernel, one))?;
    let reach = node.size(table.mul(reach, dilation))?;
    let reach = node.size(table.add(reach, one))?;
    let room = node.size(table.sub(padded, reach))?;
    let steps = node.size(table.floor_div(room, stride))?;
    let dim = node.size(table.add(steps, one))?;
    ctx.check_size(node, &format!("the result's spatial size {axis}"), dim)
}
