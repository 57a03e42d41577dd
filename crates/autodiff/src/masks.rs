//! Finds the cotangents that are exactly zero because of a mask.
//!
//! A zero cotangent times an infinite derivative is NaN, although the masked value does not affect the outputs. So
//! rules preserve zeros (`mul_no_nan`) if there is a mask between an op and the outputs; elsewhere they do not, since
//! it would cost time.

use cranelift_entity::EntitySet;
use kiln_ir::{Graph, Op, OpData, ReduceFunction, ValueId};
use kiln_scalar::{Expr, ExprNode, ScalarOp};

/// The values that may be zero over a range of operands: masks, values selected by masks, and products of these.
#[derive(Debug)]
pub(crate) struct Masks(EntitySet<ValueId>);

impl Masks {
    /// Analyses a graph. Values of regions are judged only by the ops of their own region.
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut masks = EntitySet::new();
        for (_, data) in graph.ops() {
            let reads_mask = || data.operands.iter().any(|&operand| masks.contains(operand));
            let is_mask = match &data.op {
                Op::Map {
                    function,
                    parameters,
                } => {
                    let selects = function
                        .expression(parameters)
                        .is_ok_and(|expr| selects(&expr));
                    selects || (function.name() == "mul" && reads_mask())
                }
                Op::Cast { .. } => data.operands.first().is_some_and(|&operand| {
                    !graph.ty(operand).innermost().dtype.is_float() || masks.contains(operand)
                }),
                Op::Reshape { .. } | Op::Broadcast { .. } | Op::Transpose { .. } => reads_mask(),
                _ => false,
            };
            if is_mask {
                masks.extend(data.results.iter().copied());
            }
        }
        Self(masks)
    }

    /// Whether an op makes the cotangent of an operand zero where those of its results are not. For a scalar function,
    /// `slope` is the derivative.
    pub(crate) fn made_by(&self, data: &OpData, operand: usize, slope: Option<&Expr>) -> bool {
        match &data.op {
            Op::Slice { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::ScatterElements { .. }
            | Op::ScatterNd { .. }
            | Op::UpdateSlice { .. }
            | Op::Pool { .. }
            | Op::TopK { .. }
            | Op::Cumulate { .. }
            | Op::If
            | Op::Loop { .. }
            | Op::Custom { .. } => true,
            Op::Reduce { function, .. } => {
                matches!(function, ReduceFunction::Max | ReduceFunction::Min)
            }
            Op::Map { .. } => {
                let mut others = data.operands.iter().enumerate();
                slope.is_some_and(selects)
                    || others.any(|(index, &other)| index != operand && self.0.contains(other))
            }
            _ => false,
        }
    }
}

/// Whether an expression may be exactly zero over a range of operands.
fn selects(expr: &Expr) -> bool {
    expr.nodes().iter().any(|node| {
        let ExprNode::Apply { op, .. } = node else {
            return false;
        };
        matches!(
            op,
            ScalarOp::Select | ScalarOp::Min | ScalarOp::Max | ScalarOp::Sign | ScalarOp::Cast(_)
        )
    })
}
