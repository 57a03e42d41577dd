//! The nodes of an expression, and its number of operations.

use std::collections::HashSet;

use kiln_scalar::{ExprNode, ScalarOp};
use kiln_tensor::DType;

use crate::form::{Kernel, Node, NodeId};

/// The given values and all nodes from which they are computed: each node once, the values first, breadth first. It
/// does not look through locals: a stage's value is another expression.
pub fn expression_nodes(kernel: &Kernel, roots: &[NodeId]) -> Vec<NodeId> {
    let mut seen = HashSet::new();
    let mut nodes: Vec<NodeId> = roots.to_vec();
    nodes.retain(|&node| seen.insert(node));
    let mut next = 0;
    while let Some(&node) = nodes.get(next) {
        next += 1;
        kernel.node(node).for_each_operand(&mut |operand| {
            if seen.insert(operand) {
                nodes.push(operand);
            }
        });
    }
    nodes
}

/// The arithmetic operations of a node, excluding its operands', each of them an instruction or two on any machine; 0 for
/// loads, locals and arithmetic on indices. `None` if one of them costs more, such as `exp`.
pub fn arithmetic_operations(kernel: &Kernel, node: NodeId) -> Option<usize> {
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
                    ExprNode::Apply { op, .. } => is_arithmetic(*op).then_some(1),
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

#[cfg(test)]
mod tests {
    use super::super::testing::{kernel, stage_value, stored};
    use super::*;

    #[test]
    fn expression_nodes_are_listed_once_after_their_users() {
        let kernel = kernel(
            "kernel @k(%x: in f32[N], %y: out f32[N]) {
               outer i < N
               s = reduce add[k < N] %x[k]
               store %y[i] = (%x[i] + s) * (%x[i] + s)
             }",
        );
        let nodes = expression_nodes(&kernel, &[stored(&kernel)]);
        let distinct: HashSet<NodeId> = nodes.iter().copied().collect();
        assert_eq!(distinct.len(), nodes.len());
        assert_eq!(nodes.first(), Some(&stored(&kernel)));
        let loads = |nodes: &[NodeId]| {
            let is_load = |node: &&NodeId| matches!(kernel.node(**node), Node::Load(_));
            nodes.iter().filter(is_load).count()
        };
        assert_eq!(loads(&nodes), 1, "what the stage loads is its own");
        let both = expression_nodes(&kernel, &[stored(&kernel), stage_value(&kernel, "s")]);
        assert_eq!(loads(&both), 2);
    }

    #[test]
    fn composite_functions_count_their_primitive_operations() {
        let operations = |value: &str| {
            let kernel = kernel(&format!(
                "kernel @k(%x: in f32[N], %y: out f32[N]) {{
                   outer i < N
                   store %y[i] = {value}
                 }}"
            ));
            arithmetic_operations(&kernel, stored(&kernel))
        };
        assert_eq!(operations("%x[i] + %x[i]"), Some(1));
        assert_eq!(operations("%x[i]"), Some(0), "a load");
        assert_eq!(operations("relu(%x[i])"), Some(1), "a maximum");
        assert_eq!(operations("exp(%x[i])"), None);
        assert_eq!(operations("sigmoid(%x[i])"), None, "made of one");
    }
}
