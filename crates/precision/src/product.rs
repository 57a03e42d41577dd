//! The products of a graph.

use kiln_interpreter::constant_value;
use kiln_ir::{Graph, Op, OpData, OpId, TensorType, ValueId};
use kiln_tensor::{DType, Tensor};

/// A product of f32 whose operands may be narrowed.
pub(crate) struct Product {
    pub(crate) op: OpId,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The left operand: the activations.
    pub(crate) left: ValueId,
    /// The right operand.
    pub(crate) right: ValueId,
    pub(crate) result: ValueId,
    /// The value of the right operand, if it is constant.
    pub(crate) weights: Option<Tensor>,
}

/// Which op it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Matmul,
    Conv,
}

impl Product {
    /// The op as a product, without the value of its weights.
    pub(crate) fn of(graph: &Graph, op: OpId) -> Option<Self> {
        let data = graph.op(op);
        let kind = match data.op {
            Op::Matmul { .. } => Kind::Matmul,
            Op::Conv { .. } => Kind::Conv,
            _ => return None,
        };
        let (&[left, right], &[result]) = (data.operands.as_slice(), data.results.as_slice())
        else {
            return None;
        };
        let is_f32 = |value| {
            let ty: Option<&TensorType> = graph.tensor_ty(value);
            ty.is_some_and(|ty| ty.dtype == DType::F32)
        };
        [left, right, result].into_iter().all(is_f32).then(|| Self {
            op,
            name: name(graph, data),
            kind,
            left,
            right,
            result,
            weights: None,
        })
    }

    /// The same product with the value of its weights, if they are constant.
    pub(crate) fn with_weights(self, graph: &Graph) -> Self {
        let weights = constant_value(graph, self.right);
        Self { weights, ..self }
    }
}

/// The path of the node from which it comes, or otherwise the name of its value.
fn name(graph: &Graph, data: &OpData) -> String {
    if let Some(origin) = &data.origin {
        return origin.to_string();
    }
    let Some(&result) = data.results.first() else {
        return data.op.mnemonic().to_owned();
    };
    match &graph.value(result).name {
        Some(name) => name.to_string(),
        None => result.to_string(),
    }
}
