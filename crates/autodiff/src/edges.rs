//! Which operands an op's results depend on smoothly.
//!
//! Control ops are not here: how their results depend on their operands follows from their regions.

use kiln_ir::{Op, OpData, ReduceFunction};
use kiln_scalar::{Expr, ExprNode, Function, ScalarOp};

/// How a result of an op depends on an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// There is a derivative.
    Smooth,
    /// The result is constant almost everywhere, or not a number that varies.
    Broken,
    /// The derivative is zero on purpose.
    Stopped,
}

/// The name of the scalar function that is the identity and has no derivative.
const STOP_GRADIENT: &str = "stop_gradient";

/// How the results of an op without regions depend on an operand, apart from dtypes.
pub(crate) fn edge(data: &OpData, operand: usize) -> Edge {
    let smooth = match &data.op {
        Op::Map { function, .. } if function.name() == STOP_GRADIENT => return Edge::Stopped,
        Op::Map {
            function,
            parameters,
        } => slope(*function, parameters, operand).is_some(),
        Op::Cast { to } => to.is_float(),
        Op::Reshape { .. }
        | Op::Broadcast { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Matmul { .. }
        | Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::Cumulate { .. }
        | Op::Pool { .. }
        | Op::Resize(_)
        | Op::TopK { .. }
        | Op::Custom { .. } => true,
        Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => operand == 0,
        Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. } => operand != 1,
        Op::Reduce { function, .. } => {
            !matches!(function, ReduceFunction::Any | ReduceFunction::All)
        }
        _ => false,
    };
    if smooth { Edge::Smooth } else { Edge::Broken }
}

/// The derivative of a function with respect to an operand, times a last input; `None` where there is none.
pub(crate) fn slope(function: Function, parameters: &[f64], operand: usize) -> Option<Expr> {
    function.derivative(parameters, operand).ok().flatten()
}

/// Whether the cotangent of an operand is zero in places where those of the results are not, because the op does not read
/// the operand there or discards it.
pub(crate) fn masks(op: &Op, slope: Option<&Expr>) -> bool {
    match op {
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
        Op::Map { .. } => slope.is_some_and(selects),
        _ => false,
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
