//! Which operands an op's results depend on smoothly.
//!
//! Control ops are not covered here: how their results depend on their operands follows from their regions.

use kiln_ir::{Op, OpData, ReduceFunction};
use kiln_scalar::{Expr, Function};

/// How a result of an op depends on an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// There is a derivative.
    Smooth,
    /// The result is constant almost everywhere, or not a floating-point number.
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

/// The derivative of a function with respect to an operand, times an additional last input; `None` if there is none.
pub(crate) fn slope(function: Function, parameters: &[f64], operand: usize) -> Option<Expr> {
    function.derivative(parameters, operand).ok().flatten()
}
