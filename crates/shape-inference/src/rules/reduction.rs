//! Reductions, arg-reductions and running reductions.

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::values;
use kiln_ir::{Dims, Op, TensorType, Type};
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct ReductionRule;

impl ShapeInferenceRule for ReductionRule {
    fn name(&self) -> &str {
        "reduction"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Cumulate { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        node.expect_operands(1)?;
        let operand = ctx.tensor(node, 0)?;
        match node.op {
            Op::Reduce {
                function,
                axes,
                keep_dims,
            } => {
                let dims = reduced(ctx, node, "axes", &operand, axes, *keep_dims)?;
                let ty = TensorType {
                    dtype: operand.dtype,
                    dims,
                };
                let value = values::of_reduce(ctx, node, *function, axes, &ty);
                Ok(Inferred::of(Type::Tensor(ty)).with_value(value))
            }
            Op::ArgReduce {
                axis, keep_dims, ..
            } => {
                let dims = reduced(ctx, node, "axis", &operand, &[*axis], *keep_dims)?;
                Ok(Inferred::of(Type::tensor(DType::I64, dims)))
            }
            Op::Cumulate { axis, .. } => {
                node.expect_axis("axis", *axis, operand.rank())?;
                Ok(Inferred::of(Type::Tensor(operand)))
            }
            _ => unreachable!("`can_infer` lists the ops"),
        }
    }
}

fn reduced(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    name: &'static str,
    operand: &TensorType,
    axes: &[usize],
    keep_dims: bool,
) -> Result<Dims, InferError> {
    axes.iter()
        .try_for_each(|&axis| node.expect_axis(name, axis, operand.rank()))?;
    if !axes.is_sorted_by(|left, right| left < right) {
        return Err(node.attribute_error(name, "ascending axes", format!("{axes:?}")));
    }
    let one = ctx.dims_mut().constant(1);
    let mut dims = Dims::with_capacity(operand.rank());
    for (axis, &dim) in operand.dims.iter().enumerate() {
        match (axes.contains(&axis), keep_dims) {
            (false, _) => dims.push(dim),
            (true, true) => dims.push(one),
            (true, false) => {}
        }
    }
    Ok(dims)
}
