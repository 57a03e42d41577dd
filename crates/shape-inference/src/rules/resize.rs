//! Resize: the attributes give the new sizes.

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::{Op, Type};

#[derive(Debug)]
pub(super) struct ResizeRule;

impl ShapeInferenceRule for ResizeRule {
    fn name(&self) -> &str {
        "resize"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::Resize(_))
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let Op::Resize(resize) = node.op else {
            unreachable!("`can_infer` lists the ops")
        };
        node.expect_operands(1)?;
        let mut operand = ctx.tensor(node, 0)?;
        node.expect_length("sizes", resize.sizes.len(), resize.axes.len())?;
        node.expect_length("scales", resize.scales.len(), resize.axes.len())?;
        for (&axis, &size) in resize.axes.iter().zip(&resize.sizes) {
            node.expect_axis("axes", axis, operand.rank())?;
            operand.dims[axis] = ctx.check_size(node, &format!("size of axis {axis}"), size)?;
        }
        Ok(Inferred::of(Type::Tensor(operand)))
    }
}
