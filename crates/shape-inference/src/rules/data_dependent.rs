//! Ops whose result sizes depend on data: `bind`, the indices of non-zero elements, the k largest, non-maximum
//! suppression.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::{Op, Type};
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::DType;

#[derive(Debug)]
pub(super) struct DataDependentRule;

impl ShapeInferenceRule for DataDependentRule {
    fn name(&self) -> &str {
        "data_dependent"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Bind | Op::NonZero | Op::TopK { .. } | Op::Suppress { .. }
        )
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        if let Op::Suppress { k } = node.op {
            return suppress(ctx, node, *k);
        }
        node.expect_operands(1)?;
        let operand = ctx.tensor(node, 0)?;
        match node.op {
            Op::Bind => {
                let length = match operand.dims.as_slice() {
                    [] => Some(1),
                    [length] => ctx.dims().as_constant(*length),
                    _ => None,
                };
                let fits =
                    length.is_some_and(|length| usize::try_from(length) == Ok(node.symbols.len()));
                if operand.dtype.is_integer() && fits {
                    return Ok(Inferred::default());
                }
                Err(node.error(InferErrorKind::Operand {
                    index: 0,
                    expected: format!("an integer for each of {} symbols", node.symbols.len()),
                    found: ctx.describe(node.operand(0)?),
                }))
            }
            Op::NonZero => {
                let rank = ctx.dims_mut().constant(operand.rank() as i64);
                let elements = node.size(ctx.dims_mut().product(&operand.dims))?;
                Ok(Inferred::all([
                    Type::tensor(DType::I64, [rank, elements]),
                    Type::tensor(DType::I64, []),
                ]))
            }
            Op::TopK { k, axis, .. } => {
                node.expect_axis("axis", *axis, operand.rank())?;
                ctx.check_size(node, "k", *k)?;
                let size = operand.dims[*axis];
                if ctx.prove(&Predicate::LessEqual(*k, size)) == Proof::Disproved {
                    return Err(node.error(InferErrorKind::OutOfBounds {
                        what: "k".to_owned(),
                        operand: ctx.describe(node.operand(0)?),
                        expected: format!("at most {}", ctx.show(size)),
                        found: ctx.show(*k),
                    }));
                }
                let mut dims = operand.dims;
                dims[*axis] = *k;
                Ok(Inferred::all([
                    Type::tensor(operand.dtype, dims.clone()),
                    Type::tensor(DType::I64, dims),
                ]))
            }
            _ => unreachable!("`can_infer` lists the ops"),
        }
    }
}

/// `f32[N, B, 4], f32[N, C, B], f32[], f32[] -> i64[N * C * k, 3], i64[]`.
fn suppress(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    k: DimId,
) -> Result<Inferred, InferError> {
    node.expect_operands(4)?;
    let mut shapes = Vec::with_capacity(4);
    for (index, rank) in [3, 3, 0, 0].into_iter().enumerate() {
        let operand = ctx.tensor(node, index)?;
        if (operand.dtype, operand.rank()) != (DType::F32, rank) {
            return Err(node.error(InferErrorKind::Operand {
                index,
                expected: format!("a tensor of f32 of rank {rank}"),
                found: ctx.describe(node.operand(index)?),
            }));
        }
        shapes.push(operand.dims);
    }
    let (boxes, scores) = (&shapes[0], &shapes[1]);
    ctx.check_size(node, "k", k)?;
    let corners = ctx.dims_mut().constant(4);
    ctx.require_equal(node, "batches", (0, boxes[0]), (1, scores[0]))?;
    ctx.require_equal(node, "boxes", (0, boxes[1]), (1, scores[2]))?;
    ctx.require_equal(node, "corners", (0, boxes[2]), (0, corners))?;
    let rows = node.size(ctx.dims_mut().product(&[scores[0], scores[1], k]))?;
    let columns = ctx.dims_mut().constant(3);
    Ok(Inferred::all([
        Type::tensor(DType::I64, [rows, columns]),
        Type::tensor(DType::I64, []),
    ]))
}
