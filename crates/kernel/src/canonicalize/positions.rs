//! Row-major positions, `a * |b| + b`: when two axes are merged, this is the index of the merged axis.
//!
//! Random bits are a function of the position, so their axes could not be merged without this rule.

use std::collections::BTreeSet;

use kiln_scalar::{ScalarOp, ScalarValue};

use crate::form::{AxisId, Kernel, Node, NodeId};
use crate::verify::used_nodes;

/// The positions along two axes, and the products inside them that have no other use.
pub(super) struct Positions {
    /// `a * |b| + b`.
    pub(super) sums: BTreeSet<NodeId>,
    /// `a * |b|`.
    pub(super) products: BTreeSet<NodeId>,
}

impl Positions {
    /// The positions of a pair of axes; `roots` are the nodes that are used by more than nodes.
    pub(super) fn of(kernel: &Kernel, (a, b): (AxisId, AxisId), roots: &[NodeId]) -> Self {
        let used = used_nodes(kernel);
        let mut products: BTreeSet<NodeId> = used
            .iter()
            .copied()
            .filter(|&node| is_product(kernel, node, (a, b)))
            .collect();
        let sums: BTreeSet<NodeId> = used
            .iter()
            .copied()
            .filter(|&node| match binary(kernel, node, ScalarOp::Add) {
                Some((left, right)) => products.contains(&left) && is_axis(kernel, right, b),
                None => false,
            })
            .collect();
        for &node in used.iter().filter(|node| !sums.contains(node)) {
            kernel.node(node).for_each_operand(&mut |operand| {
                products.remove(&operand);
            });
        }
        for root in roots {
            products.remove(root);
        }
        Self { sums, products }
    }

    /// Whether a node uses the axes' indices only to form a position.
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.sums.contains(&node) || self.products.contains(&node)
    }
}

fn is_product(kernel: &Kernel, node: NodeId, (a, b): (AxisId, AxisId)) -> bool {
    let Some((left, right)) = binary(kernel, node, ScalarOp::Mul) else {
        return false;
    };
    let extent = kernel.axis(b).extent.bound();
    let is_extent = match *kernel.node(right) {
        Node::Size(size) => kernel.dims().equal(size, extent).is_proved(),
        Node::Literal(ScalarValue::I64(size)) => kernel.dims().as_constant(extent) == Some(size),
        _ => false,
    };
    is_axis(kernel, left, a) && is_extent
}

fn is_axis(kernel: &Kernel, node: NodeId, axis: AxisId) -> bool {
    matches!(*kernel.node(node), Node::Axis(found) if found == axis)
}

fn binary(kernel: &Kernel, node: NodeId, wanted: ScalarOp) -> Option<(NodeId, NodeId)> {
    match kernel.node(node) {
        Node::Apply { op, operands } if *op == wanted => match operands.as_slice() {
            &[left, right] => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}
