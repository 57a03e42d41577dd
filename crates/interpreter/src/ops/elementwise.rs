//! Scalar functions on every element, as `scalar` defines and evaluates them.
//!
//! An operand with the result's shape, or with one element, is read in place; any other is broadcast to the result's shape
//! first.

use crate::context::{EvaluateContext, Shape};
use crate::fault::OpFault;
use kiln_scalar::{Block, BlockEvaluator, BlockMut, Expr, ExprBuilder, Function};
use kiln_tensor::{DType, Tensor};

/// A named function of the operands, broadcast.
pub(crate) fn map(
    ctx: &EvaluateContext<'_>,
    function: Function,
    parameters: &[f64],
    operands: &[Tensor],
) -> Result<Tensor, OpFault> {
    apply(ctx, &function.expression(parameters)?, operands)
}

/// Every element in a different dtype.
pub(crate) fn cast(ctx: &EvaluateContext<'_>, x: &Tensor, to: DType) -> Result<Tensor, OpFault> {
    if x.dtype() == ctx.dtype(to) {
        return Ok(x.clone());
    }
    let mut builder = ExprBuilder::new(1);
    let input = builder.input(0);
    let result = builder.cast(to, input);
    apply(ctx, &builder.finish(result)?, std::slice::from_ref(x))
}

fn apply(ctx: &EvaluateContext<'_>, expr: &Expr, operands: &[Tensor]) -> Result<Tensor, OpFault> {
    let shape = broadcast_shape(ctx, operands)?;
    let dtypes: Vec<DType> = operands.iter().map(Tensor::dtype).collect();
    let evaluator = BlockEvaluator::new(expr, &dtypes, ctx.mode())?;
    let mut result = Tensor::zeros(ctx.dtype(expr.result_type(&dtypes)?), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    let repeated = operands.iter().map(|operand| match operand.len() {
        1 => ctx.dense(operand),
        _ => ctx.dense(&operand.broadcast_to(&shape)?),
    });
    let repeated = repeated.collect::<Result<Vec<Tensor>, _>>()?;
    let blocks = repeated
        .iter()
        .map(Block::of_tensor)
        .collect::<Result<Vec<_>, _>>()?;
    let mut stopped = Ok(());
    let steps = expr.nodes().len().max(1);
    evaluator.run_while(
        &blocks,
        BlockMut::of_tensor(&mut result)?,
        &mut |elements| {
            stopped = ctx.work(elements.saturating_mul(steps));
            stopped.is_ok()
        },
    )?;
    stopped.map(|()| result)
}

/// The shape to which all operands broadcast.
pub(crate) fn broadcast_shape(
    ctx: &EvaluateContext<'_>,
    operands: &[Tensor],
) -> Result<Shape, OpFault> {
    let rank = operands.iter().map(Tensor::rank).max().unwrap_or(0);
    let mut shape: Shape = std::iter::repeat_n(1, rank).collect();
    for (index, operand) in operands.iter().enumerate() {
        let offset = rank - operand.rank();
        for (at, (dim, &size)) in shape[offset..].iter_mut().zip(operand.shape()).enumerate() {
            if *dim == 1 {
                *dim = size;
            } else if size != 1 && size != *dim {
                let from_end = operand.rank() - at;
                let with = operands[..index]
                    .iter()
                    .position(|other| {
                        other.rank() >= from_end && other.shape()[other.rank() - from_end] != 1
                    })
                    .unwrap_or(0);
                return Err(OpFault::Broadcast {
                    left: ctx.describe(with, &operands[with]),
                    right: ctx.describe(index, operand),
                });
            }
        }
    }
    Ok(shape)
}
