//! Finds the products of a graph, and their weights.

use kiln_tensor::{DType, Tensor};

use crate::proto::NodeProto;

/// The kind of product that a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `x * w`, `w: [K, N]`.
    Matmul,
    /// `x * w + bias`, `w: [K, N]`, or `[N, K]` if transposed.
    Gemm { transposed: bool },
    /// `w: [O, ..]`.
    Conv,
}

impl Kind {
    /// The kind of a node that multiplies by its second operand and does nothing else.
    pub(super) fn of(node: &NodeProto) -> Option<Self> {
        if !["", "ai.onnx"].contains(&node.domain.as_str()) {
            return None;
        }
        let attribute = |name: &str| node.attribute.iter().find(|known| known.name == name);
        let integer = |name: &str| attribute(name).map_or(0, |known| known.i);
        let is_one = |name: &str| attribute(name).is_none_or(|known| known.f == 1.0);
        match node.op_type.as_str() {
            "MatMul" => Some(Self::Matmul),
            "Gemm" if integer("transA") == 0 && is_one("alpha") && is_one("beta") => {
                Some(Self::Gemm {
                    transposed: integer("transB") != 0,
                })
            }
            "Conv" => Some(Self::Conv),
            _ => None,
        }
    }
}

/// A node that multiplies.
#[derive(Clone, Debug)]
pub(super) struct Product {
    /// Its position among the nodes.
    pub(super) index: usize,
    /// Its name, or its result's.
    pub(super) name: String,
    pub(super) node: NodeProto,
    pub(super) kind: Kind,
    /// The operand that it multiplies by its weights.
    pub(super) activation: String,
    /// Constant, finite weights of f32 with as many axes as the kind has, and their sizes.
    pub(super) weights: Option<(Vec<f32>, Vec<usize>)>,
}

impl Product {
    pub(super) fn read(
        index: usize,
        node: &NodeProto,
        kind: Kind,
        tensor: &dyn Fn(&str) -> Option<Tensor>,
    ) -> Self {
        let operand = |place: usize| node.input.get(place).cloned().unwrap_or_default();
        let name = match node.name.is_empty() {
            true => node.output.first().cloned().unwrap_or_default(),
            false => node.name.clone(),
        };
        Self {
            index,
            name,
            node: node.clone(),
            kind,
            activation: operand(0),
            weights: tensor(&operand(1)).and_then(|tensor| finite(&tensor, kind)),
        }
    }

    /// The weights of a matrix product as `[K, N]`.
    pub(super) fn matrix(&self) -> Option<(Vec<f32>, [usize; 2])> {
        let (weights, shape) = self.weights.as_ref()?;
        let &[first, second] = shape.as_slice() else {
            return None;
        };
        match self.kind {
            Kind::Matmul | Kind::Gemm { transposed: false } => {
                Some((weights.clone(), [first, second]))
            }
            Kind::Gemm { transposed: true } => {
                let turned = (0..second)
                    .flat_map(|row| (0..first).map(move |column| weights[column * second + row]));
                Some((turned.collect(), [second, first]))
            }
            Kind::Conv => None,
        }
    }
}

fn finite(tensor: &Tensor, kind: Kind) -> Option<(Vec<f32>, Vec<usize>)> {
    let fits = match kind {
        Kind::Matmul | Kind::Gemm { .. } => tensor.rank() == 2,
        Kind::Conv => tensor.rank() >= 3,
    };
    if !fits || tensor.dtype() != DType::F32 || tensor.is_empty() {
        return None;
    }
    let weights = tensor.to_vec::<f32>().ok()?;
    let is_finite = weights.iter().all(|weight| weight.is_finite());
    is_finite.then(|| (weights, tensor.shape().to_vec()))
}
