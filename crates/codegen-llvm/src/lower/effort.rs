//! How much a value takes to compute, where a choice depends on it.

use kiln_kernel::{Node, NodeId, VerifiedKernel};
use kiln_scalar::{Node as FunctionNode, ScalarOp};
use kiln_tensor::DType;

use super::context::Lowering;

/// Expressions of up to so many nodes are computed faster than memory takes their results.
const PLAIN_LIMIT: usize = 32;

/// What an operation counts that is more than an instruction or two.
const MANY: usize = 6;

impl Lowering<'_, '_, '_> {
    /// Whether a value is made of a few operations of an instruction or two.
    pub(super) fn is_plain(&self, value: NodeId) -> bool {
        let nodes = self.below(value);
        nodes.len() <= PLAIN_LIMIT
            && nodes
                .iter()
                .all(|&node| instructions(self.kernel, node).is_some())
    }

    /// How many operations a value takes, those on indices not counted.
    pub(super) fn operations(&self, value: NodeId) -> usize {
        let nodes = self.below(value).into_iter();
        nodes
            .map(|node| instructions(self.kernel, node).unwrap_or(MANY))
            .sum()
    }

    /// A value and what it is computed from, each node once.
    pub(super) fn below(&self, value: NodeId) -> Vec<NodeId> {
        let mut nodes = vec![value];
        let mut next = 0;
        while let Some(&node) = nodes.get(next) {
            next += 1;
            self.kernel.node(node).for_each_operand(&mut |operand| {
                if !nodes.contains(&operand) {
                    nodes.push(operand);
                }
            });
        }
        nodes
    }
}

/// About how many instructions a node takes when its operands are there; `None` if they are not counted.
pub(crate) fn instructions(kernel: &VerifiedKernel, node: NodeId) -> Option<usize> {
    let is_index = kernel.dtype(node) == DType::I64;
    match kernel.node(node) {
        Node::Apply { op, .. } if is_arithmetic(*op) => Some(usize::from(!is_index)),
        Node::Apply { .. } => None,
        Node::Call {
            function,
            parameters,
            ..
        } => {
            let expression = function.expression(parameters).ok()?;
            expression
                .nodes()
                .iter()
                .map(|node| match node {
                    FunctionNode::Apply { op, .. } => is_arithmetic(*op).then_some(1),
                    _ => Some(0),
                })
                .sum()
        }
        _ => Some(0),
    }
}

/// Whether an operation is an instruction or two.
fn is_arithmetic(op: ScalarOp) -> bool {
    use ScalarOp::{
        Abs, Add, And, Cast, Div, Eq, Ge, Gt, Le, Lt, Max, Min, Mul, Ne, Neg, Not, Or, Select, Sub,
        Xor,
    };
    matches!(
        op,
        Abs | Add
            | And
            | Cast(_)
            | Div
            | Eq
            | Ge
            | Gt
            | Le
            | Lt
            | Max
            | Min
            | Mul
            | Ne
            | Neg
            | Not
            | Or
            | Select
            | Sub
            | Xor
    )
}
