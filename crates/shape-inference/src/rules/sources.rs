//! Ops without tensor operands that are defined by their attributes: constants, iota, sizes as data, random bits.

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::values;
use kiln_ir::{Op, Type};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct SourceRule;

impl ShapeInferenceRule for SourceRule {
    fn name(&self) -> &str {
        "sources"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Constant(_) | Op::Iota { .. } | Op::Dims { .. } | Op::RandomBits { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        match node.op {
            Op::Constant(constant) => {
                let tensor = constant.tensor();
                let sizes: Vec<DimId> = tensor
                    .shape()
                    .iter()
                    .map(|&size| ctx.dims_mut().constant(size as i64))
                    .collect();
                let value = values::of_constant(ctx, &tensor);
                Ok(Inferred::of(Type::tensor(tensor.dtype(), sizes)).with_value(value))
            }
            Op::Iota { dims, axis, dtype } => {
                node.expect_axis("axis", *axis, dims.len())?;
                check_sizes(ctx, node, dims)?;
                let ty = Type::tensor(*dtype, dims.iter().copied());
                let value = values::of_iota(ctx, &ty, *axis);
                Ok(Inferred::of(ty).with_value(value))
            }
            Op::Dims { sizes } => {
                let length = ctx.dims_mut().constant(sizes.len() as i64);
                let value = values::of_sizes(sizes);
                Ok(Inferred::of(Type::tensor(DType::I64, [length])).with_value(value))
            }
            Op::RandomBits { dims } => {
                let key = ctx.tensor(node, 0)?;
                let two = ctx.dims_mut().constant(2);
                ctx.check_type(
                    node,
                    "the key",
                    &Type::tensor(DType::U64, [two]),
                    &Type::Tensor(key),
                )?;
                check_sizes(ctx, node, dims)?;
                Ok(Inferred::of(Type::tensor(DType::U32, dims.iter().copied())))
            }
            _ => unreachable!("`can_infer` lists the ops"),
        }
    }
}

fn check_sizes(
    ctx: &InferenceContext<'_>,
    node: &OpView<'_>,
    dims: &[DimId],
) -> Result<(), InferError> {
    dims.iter().enumerate().try_for_each(|(axis, &dim)| {
        ctx.check_size(node, &format!("size {axis}"), dim)?;
        Ok(())
    })
}
