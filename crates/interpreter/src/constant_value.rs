//! Values of a graph that depend on constants alone, such as weights after a transpose or a dequantisation.

use crate::context::EvaluateContext;
use crate::evaluate::evaluate_op;
use kiln_ir::{Definition, Graph, Op, ValueId};
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;

/// The maximum number of ops between a constant and its reader: a transpose, a cast, a few scales.
const DEPTH_LIMIT: usize = 8;

/// The tensor that a value equals in every call: a constant, or the result of up to eight element-wise ops, casts and
/// data movements of constants. `None` if it depends on anything else, or if an op faults.
pub fn constant_value(graph: &Graph, value: ValueId) -> Option<Tensor> {
    evaluated(graph, value, DEPTH_LIMIT)
}

/// Recursion is bounded by `depth`.
fn evaluated(graph: &Graph, value: ValueId, depth: usize) -> Option<Tensor> {
    let Definition::Result { op, .. } = graph.value(value).definition else {
        return None;
    };
    let data = graph.op(op);
    if let Op::Constant(constant) = &data.op {
        return Some(constant.tensor());
    }
    let is_plain = matches!(
        data.op,
        Op::Map { .. }
            | Op::Cast { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Concat { .. }
    );
    let depth = depth.checked_sub(1).filter(|_| is_plain)?;
    let operands: Option<Vec<Tensor>> = data
        .operands
        .iter()
        .map(|&operand| evaluated(graph, operand, depth))
        .collect();
    let binding = Binding::new();
    let context = EvaluateContext::new(graph.dims(), &binding);
    let mut results = evaluate_op(&context, &data.op, &operands?).ok()?;
    (results.len() == 1).then(|| results.remove(0))
}
