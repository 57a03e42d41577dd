//! Expressions: a flat list of nodes in which each refers only to earlier ones.
//!
//! An [`Expr`] has inputs without dtypes; querying the result's dtype with the inputs' dtypes checks every node.
//! Invariants, kept by the builder and checked on deserialisation: a node's operands come before it; inputs are below
//! `n_inputs`; each operation has its arity.

mod builder;
mod print;

use std::hash::{Hash, Hasher};

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{ScalarError, ScalarOp, ScalarValue};

pub use builder::ExprBuilder;

/// A node of one expression, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(u32);

impl NodeId {
    /// The position among the nodes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One step of an expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExprNode {
    /// An input, by position.
    Input(usize),
    /// A value with its own dtype.
    Constant(ScalarValue),
    /// A number in the dtype of another node: how generic definitions write constants.
    Literal {
        /// The number; rounded to the dtype once, and rejected if an integer dtype cannot represent it.
        number: f64,
        /// The node whose dtype it takes.
        like: NodeId,
    },
    /// An operation on earlier nodes.
    Apply {
        /// The operation.
        op: ScalarOp,
        /// Its operands.
        operands: SmallVec<[NodeId; 3]>,
    },
}

impl ExprNode {
    /// The nodes to which this one refers, including a literal's model.
    fn references(&self) -> &[NodeId] {
        match self {
            ExprNode::Input(_) | ExprNode::Constant(_) => &[],
            ExprNode::Literal { like, .. } => std::slice::from_ref(like),
            ExprNode::Apply { operands, .. } => operands,
        }
    }
}

/// Floats compare by bits, as in [`ScalarValue`].
impl PartialEq for ExprNode {
    fn eq(&self, other: &ExprNode) -> bool {
        match (self, other) {
            (ExprNode::Input(a), ExprNode::Input(b)) => a == b,
            (ExprNode::Constant(a), ExprNode::Constant(b)) => a == b,
            (
                ExprNode::Literal { number: a, like: x },
                ExprNode::Literal { number: b, like: y },
            ) => a.to_bits() == b.to_bits() && x == y,
            (ExprNode::Apply { op: a, operands: x }, ExprNode::Apply { op: b, operands: y }) => {
                a == b && x == y
            }
            _ => false,
        }
    }
}

impl Eq for ExprNode {}

impl Hash for ExprNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            ExprNode::Input(input) => input.hash(state),
            ExprNode::Constant(value) => value.hash(state),
            ExprNode::Literal { number, like } => (number.to_bits(), like).hash(state),
            ExprNode::Apply { op, operands } => (op, operands).hash(state),
        }
    }
}

/// A scalar expression over inputs `x0`, `x1`, ….
///
/// Prints as `add(mul(x0, x1), 1.0)`; a step used more than once is printed once, under a name:
/// `t0 = exp(x0); div(t0, add(t0, 1.0))`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Expr {
    n_inputs: usize,
    nodes: Vec<ExprNode>,
    result: NodeId,
}

impl Expr {
    /// The number of inputs, used or not.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// The nodes, each after those to which it refers.
    pub fn nodes(&self) -> &[ExprNode] {
        &self.nodes
    }

    /// The node that is the expression's value.
    pub fn result(&self) -> NodeId {
        self.result
    }

    /// The dtype of the value, for inputs of these dtypes.
    pub fn result_type(&self, inputs: &[DType]) -> Result<DType, ScalarError> {
        let types = self.node_types(inputs)?;
        types
            .get(self.result.index())
            .copied()
            .ok_or_else(|| dangling(self.nodes.len(), self.result))
    }

    /// The dtype of each node, for inputs of these dtypes.
    pub fn node_types(&self, inputs: &[DType]) -> Result<Vec<DType>, ScalarError> {
        self.node_types_with(inputs, |dtype| dtype)
    }

    /// [`Expr::node_types`] with every dtype, of inputs, constants and conversions, replaced.
    pub(crate) fn node_types_with(
        &self,
        inputs: &[DType],
        replace: impl Fn(DType) -> DType,
    ) -> Result<Vec<DType>, ScalarError> {
        if inputs.len() != self.n_inputs {
            return Err(ScalarError::InputCount {
                expected: self.n_inputs,
                found: inputs.len(),
            });
        }
        let mut types: Vec<DType> = Vec::with_capacity(self.nodes.len());
        for (position, node) in self.nodes.iter().enumerate() {
            let type_of = |id: NodeId| {
                types
                    .get(id.index())
                    .copied()
                    .ok_or_else(|| dangling(position, id))
            };
            let dtype = match node {
                ExprNode::Input(input) => {
                    let n_inputs = self.n_inputs;
                    let out_of_range = ScalarError::InputOutOfRange {
                        input: *input,
                        n_inputs,
                    };
                    replace(*inputs.get(*input).ok_or(out_of_range)?)
                }
                ExprNode::Constant(value) => replace(value.dtype()),
                ExprNode::Literal { number, like } => {
                    let dtype = type_of(*like)?;
                    literal(*number, dtype)?;
                    dtype
                }
                ExprNode::Apply { op, operands } => {
                    let found: SmallVec<[DType; 3]> = operands
                        .iter()
                        .map(|&id| type_of(id))
                        .collect::<Result<_, _>>()?;
                    let result = op.signature().result_type(&found);
                    replace(result.ok_or_else(|| ScalarError::OperandTypes {
                        name: op.name(),
                        expected: op.signature().expectation(),
                        found: found.to_vec(),
                    })?)
                }
            };
            types.push(dtype);
        }
        Ok(types)
    }

    /// For each node, whether the value depends on it (or on its dtype, for a literal's model).
    pub(crate) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        if let Some(result) = needed.get_mut(self.result.index()) {
            *result = true;
        }
        for (position, node) in self.nodes.iter().enumerate().rev() {
            if needed.get(position) == Some(&true) {
                for id in node.references() {
                    if let Some(reference) = needed.get_mut(id.index()) {
                        *reference = true;
                    }
                }
            }
        }
        needed
    }
}

/// The value of a literal in a dtype.
pub(crate) fn literal(number: f64, dtype: DType) -> Result<ScalarValue, ScalarError> {
    ScalarValue::from_number(number, dtype).ok_or_else(|| ScalarError::Literal {
        value: ScalarValue::F64(number).to_string(),
        dtype,
    })
}

fn dangling(node: usize, to: NodeId) -> ScalarError {
    ScalarError::Dangling {
        node,
        what: format!("node {}", to.0),
    }
}

/// An expression from outside, not yet checked.
#[derive(Deserialize)]
struct Unchecked {
    n_inputs: usize,
    nodes: Vec<ExprNode>,
    result: NodeId,
}

impl TryFrom<Unchecked> for Expr {
    type Error = ScalarError;

    fn try_from(unchecked: Unchecked) -> Result<Expr, ScalarError> {
        let Unchecked {
            n_inputs,
            nodes,
            result,
        } = unchecked;
        for (position, node) in nodes.iter().enumerate() {
            if let Some(&late) = node.references().iter().find(|id| id.index() >= position) {
                return Err(dangling(position, late));
            }
            match node {
                ExprNode::Input(input) if *input >= n_inputs => {
                    return Err(ScalarError::InputOutOfRange {
                        input: *input,
                        n_inputs,
                    });
                }
                ExprNode::Apply { op, operands } if operands.len() != op.arity() => {
                    let (expected, found) = (op.arity(), operands.len());
                    return Err(ScalarError::Arity {
                        name: op.name(),
                        expected,
                        found,
                    });
                }
                _ => {}
            }
        }
        if result.index() >= nodes.len() {
            return Err(dangling(nodes.len(), result));
        }
        Ok(Expr {
            n_inputs,
            nodes,
            result,
        })
    }
}

#[cfg(test)]
mod tests;
