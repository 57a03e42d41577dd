//! Element-wise ops: operands broadcast as in numpy; the scalar function determines the dtype.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::values;
use kiln_ir::{Op, TensorType, Type};
use kiln_scalar::Function;
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct ElementwiseRule;

impl ShapeInferenceRule for ElementwiseRule {
    fn name(&self) -> &str {
        "elementwise"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::Map { .. } | Op::Cast { .. })
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        match node.op {
            Op::Map {
                function,
                parameters,
            } => {
                node.expect_operands(function.arity())?;
                node.expect_length("parameters", parameters.len(), function.parameters().len())?;
                let ty = map_type(ctx, node, *function)?;
                let value = values::of_map(ctx, node, function.name(), &ty);
                Ok(Inferred::of(Type::Tensor(ty)).with_value(value))
            }
            Op::Cast { to } => {
                node.expect_operands(1)?;
                let operand = ctx.tensor(node, 0)?;
                let value = values::of_cast(ctx, node, operand.dtype, *to);
                Ok(Inferred::of(Type::tensor(*to, operand.dims)).with_value(value))
            }
            _ => unreachable!("`can_infer` lists the ops"),
        }
    }
}

fn map_type(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    function: Function,
) -> Result<TensorType, InferError> {
    let operands = (0..node.operands.len())
        .map(|index| ctx.tensor(node, index))
        .collect::<Result<Vec<_>, InferError>>()?;
    let dtypes: Vec<DType> = operands.iter().map(|ty| ty.dtype).collect();
    let dtype = function.result_type(&dtypes).map_err(|error| {
        let operands: Vec<String> = node
            .operands
            .iter()
            .map(|&value| ctx.describe(value))
            .collect();
        node.error(InferErrorKind::Operand {
            index: 0,
            expected: format!("operands of {} ({error})", function.name()),
            found: operands.join(", "),
        })
    })?;
    let mut operands = operands.into_iter().enumerate();
    let Some((mut widest, TensorType { mut dims, .. })) = operands.next() else {
        return Ok(TensorType::new(dtype, []));
    };
    for (index, operand) in operands {
        // Messages name two operands: the current one, and the first of the maximum rank before it.
        let joined = ctx.broadcast(node, (widest, &dims), (index, &operand.dims))?;
        if operand.dims.len() > dims.len() {
            widest = index;
        }
        dims = joined;
    }
    Ok(TensorType { dtype, dims })
}
