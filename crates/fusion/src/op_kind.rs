//! A table of the op properties that fusion needs: memory access and cost.

use kiln_backend::Builtin;
use kiln_ir::{Graph, Op, OpId, ResizeMode, Type};
use kiln_scalar::{ExprNode, Function, ScalarOp};
use kiln_tensor::DType;

use crate::plan::NodeKind;

/// How an op takes part in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OpKind {
    /// A value per point from values at the same point, or from the point itself.
    Pointwise,
    /// Each element is an element of an operand (or the position itself); nothing is computed.
    Movement,
    /// As movement, but the position is data, or several elements are weighted.
    Lookup,
    /// Reduces whole axes.
    Reduction,
    /// Sums products: `Matmul`.
    Contraction,
    /// Windows: convolutions and pools.
    Window,
    /// A running reduction.
    Scan,
    /// Writes at positions that are data.
    Scatter,
    /// Not part of any kernel.
    Apart,
}

impl OpKind {
    /// The kind of an op.
    pub(crate) fn of(op: &Op) -> Self {
        match op {
            Op::Map { .. } | Op::Cast { .. } | Op::RandomBits { .. } => Self::Pointwise,
            Op::Iota { .. }
            | Op::Dims { .. }
            | Op::Reshape { .. }
            | Op::Broadcast { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concat { .. } => Self::Movement,
            Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } | Op::Resize(_) => {
                Self::Lookup
            }
            Op::Reduce { axes, .. } if axes.is_empty() => Self::Pointwise,
            Op::Reduce { .. } | Op::ArgReduce { .. } => Self::Reduction,
            Op::Matmul { .. } => Self::Contraction,
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Pool { .. } | Op::ArgPool { .. } => {
                Self::Window
            }
            Op::Cumulate { .. } => Self::Scan,
            Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. } => {
                Self::Scatter
            }
            Op::Constant(_)
            | Op::Bind
            | Op::NonZero
            | Op::TopK { .. }
            | Op::Suppress { .. }
            | Op::If
            | Op::Loop { .. }
            | Op::Custom { .. } => Self::Apart,
        }
    }

    /// Whether a kernel has at most one op of this kind, for which its schedule is made.
    pub(crate) fn is_heavy(self) -> bool {
        matches!(
            self,
            Self::Contraction | Self::Window | Self::Scan | Self::Scatter
        )
    }
}

/// How a node of this single op is executed, if it is not a kernel.
pub(crate) fn apart(graph: &Graph, op: OpId) -> Option<NodeKind> {
    let data = graph.op(op);
    let kind = match &data.op {
        Op::Constant(_) => NodeKind::Constant,
        Op::Bind => NodeKind::Bind,
        Op::If | Op::Loop { .. } => NodeKind::Control,
        Op::NonZero => NodeKind::Builtin(Builtin::NonZero),
        Op::TopK { axis, extremum, .. } => NodeKind::Builtin(Builtin::TopK {
            axis: *axis,
            largest: *extremum == kiln_ir::Extremum::Max,
        }),
        Op::Suppress { .. } => NodeKind::Builtin(Builtin::Suppress),
        Op::Custom { .. } => NodeKind::Interpret,
        _ => {
            let mut values = data.operands.iter().chain(&data.results);
            let tensors = values.all(|&value| matches!(graph.ty(value), Type::Tensor(_)));
            return (!tensors).then_some(NodeKind::Interpret);
        }
    };
    Some(kind)
}

/// Whether recomputing the op costs nothing significant: it moves elements by index alone.
pub(crate) fn is_index_map(op: &Op) -> bool {
    matches!(
        op,
        Op::Iota { .. }
            | Op::Dims { .. }
            | Op::Reshape { .. }
            | Op::Broadcast { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
    )
}

/// Whether the op converts bytes, or 16-bit floats, to wider floats.
pub(crate) fn is_widening(graph: &Graph, op: OpId) -> bool {
    let data = graph.op(op);
    let operand = data.operands.first();
    let operand = operand.and_then(|&operand| graph.tensor_ty(operand));
    match (&data.op, operand.map(|ty| ty.dtype)) {
        (Op::Cast { to }, Some(from)) => {
            let is_narrow = matches!(from, DType::I8 | DType::U8 | DType::F16 | DType::BF16);
            is_narrow && to.is_float() && from.size_in_bytes() < to.size_in_bytes()
        }
        _ => false,
    }
}

/// The cost of an op per element of its result (per summand for a reduction), in simple operations.
pub(crate) fn unit_cost(op: &Op) -> u64 {
    match op {
        Op::Map {
            function,
            parameters,
        } => function_cost(*function, parameters),
        Op::RandomBits { .. } => RANDOM_BITS,
        Op::Cast { .. } | Op::Concat { .. } | Op::Pad { .. } => 1,
        Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => 2,
        Op::Resize(resize) if resize.mode == ResizeMode::Cubic || resize.antialias => CUBIC_TAPS,
        Op::Resize(_) => 4,
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Cumulate { .. } => 1,
        _ => 0,
    }
}

fn function_cost(function: Function, parameters: &[f64]) -> u64 {
    if let Some(op) = function.primitive() {
        return scalar_cost(op);
    }
    let Ok(expression) = function.expression(parameters) else {
        return TRANSCENDENTAL;
    };
    let nodes = expression.nodes().iter();
    nodes
        .map(|node| match node {
            ExprNode::Apply { op, .. } => scalar_cost(*op),
            _ => 0,
        })
        .sum()
}

/// The cost of a weighted sum of four elements or more.
const CUBIC_TAPS: u64 = 16;

/// The cost of random bits: ten rounds of two products and the mixing of their halves.
const RANDOM_BITS: u64 = 159;

/// The cost of a function that is computed by a polynomial.
const TRANSCENDENTAL: u64 = 16;

fn scalar_cost(op: ScalarOp) -> u64 {
    use ScalarOp as S;
    match op {
        S::Div | S::FloorDiv | S::Rem | S::FloorMod | S::Sqrt | S::Rsqrt => 4,
        S::Pow
        | S::Exp
        | S::Exp2
        | S::Expm1
        | S::Log
        | S::Log2
        | S::Log1p
        | S::Sin
        | S::Cos
        | S::Tan
        | S::Asin
        | S::Acos
        | S::Atan
        | S::Sinh
        | S::Cosh
        | S::Tanh
        | S::Asinh
        | S::Acosh
        | S::Atanh
        | S::Sigmoid
        | S::Atan2 => TRANSCENDENTAL,
        // Two ranges, a polynomial each, and an exponential.
        S::Erf => 3 * TRANSCENDENTAL,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_the_definitions() {
        let cost = |name: &str| unit_cost(&Op::map(Function::by_name(name).unwrap()));
        assert_eq!(cost("add"), 1);
        assert_eq!(cost("div"), 4);
        assert_eq!(cost("exp"), 16);
        assert!(cost("gelu") > 16);
        assert!(cost("relu") < 4);
        assert_eq!(RANDOM_BITS, function_cost(Function::random_bits(), &[]));
    }
}
