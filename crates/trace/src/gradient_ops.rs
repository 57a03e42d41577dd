//! Custom ops whose results have custom gradients: the operands are the computed values, followed by the values they
//! were computed from, and the results are the computed values, unchanged.
//!
//! They exist only while a function is recorded. A graph that is returned has none, but its metadata record that it had
//! some.

use kiln_autodiff::CUSTOM_GRADIENTS;
use kiln_interpreter::CustomOp;
use kiln_ir::{Graph, Op, Rebuild, Visit};
use kiln_shape_inference::{
    InferError, InferenceContext, Inferred, OpView, ShapeInferenceEngine, ShapeInferenceRule,
};
use kiln_tensor::Tensor;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of the ops' names.
const PREFIX: &str = "gradient_of.";

/// The op as a tape computes it: its results are its first operands.
pub(crate) struct KeepFirst(pub(crate) usize);

impl CustomOp for KeepFirst {
    fn evaluate(&self, _arguments: &str, operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
        Ok(operands.iter().take(self.0).cloned().collect())
    }
}

/// An op for some values, with its name, which no other op has.
pub(crate) fn op_of(values: usize) -> (String, Op) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{PREFIX}{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let op = Op::Custom {
        name: name.clone(),
        arguments: values.to_string(),
    };
    (name, op)
}

/// The number of values to which an op gives a gradient, if it is one of these ops.
fn n_values(op: &Op) -> Option<usize> {
    match op {
        Op::Custom { name, arguments } if name.starts_with(PREFIX) => arguments.parse().ok(),
        _ => None,
    }
}

/// An engine with the gradients of these ops.
pub(crate) fn engine() -> ShapeInferenceEngine {
    let mut engine = ShapeInferenceEngine::new();
    engine.register(Arc::new(TypeRule));
    engine
}

/// The types of the results: those of the first operands.
struct TypeRule;

impl ShapeInferenceRule for TypeRule {
    fn name(&self) -> &str {
        PREFIX
    }

    fn can_infer(&self, op: &Op) -> bool {
        n_values(op).is_some()
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let mut types = Vec::new();
        for index in 0..n_values(node.op).unwrap_or(0) {
            types.push(ctx.ty(node.operand(index)?).clone());
        }
        Ok(Inferred::all(types))
    }
}

/// The graph without these ops, and whether it had any: a value with a custom gradient is replaced by the value as it
/// was computed.
pub(crate) fn without_rules(graph: Graph) -> Graph {
    if !graph.ops().any(|(_, data)| n_values(&data.op).is_some()) {
        return graph;
    }
    let rebuilt = Rebuild::new(&graph).run::<Infallible>(&mut |rebuild, _, op| {
        let data = rebuild.old().op(op);
        if n_values(&data.op).is_none() {
            return Ok(Visit::Copy);
        }
        for (&result, &operand) in data.results.iter().zip(&data.operands) {
            let value = rebuild.value(operand);
            rebuild.map(result, value);
        }
        Ok(Visit::Done)
    });
    let Ok(mut rebuilt) = rebuilt;
    let metadata = rebuilt.metadata_mut();
    metadata.insert(CUSTOM_GRADIENTS.to_owned(), "true".to_owned());
    rebuilt
}
