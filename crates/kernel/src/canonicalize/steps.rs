//! Comparisons `a < c` and shifts `a - c` of an axis: when it is merged with the next axis `b`, they become `a < c * |b|` and
//! `a - c * |b|`.
//!
//! They come from a concatenation, a slice or padding along an outer axis, whose rows are then copied as one.

use std::collections::{BTreeMap, BTreeSet};

use kiln_scalar::{ScalarOp, ScalarValue};

use crate::form::{AxisId, Kernel, Node, NodeId};
use crate::verify::used_nodes;

/// The maximum number of comparisons of an axis that is merged: with more, loops are not split at each of them, and
/// testing them per row is faster than per element.
const MAX_COMPARISONS: usize = 7;

/// The comparisons and shifts that scale with an axis.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// `a < c` and `a >= c`.
    pub(super) comparisons: BTreeSet<NodeId>,
    /// `a + c` and `a - c`.
    pub(super) shifts: BTreeSet<NodeId>,
    /// Each `c`, which has no other use.
    pub(super) lengths: BTreeSet<NodeId>,
}

impl Steps {
    /// The comparisons and shifts of each axis that has any and can be scaled. `roots` are the nodes that are used by more
    /// than nodes.
    pub(super) fn of_axes(kernel: &Kernel, roots: &[NodeId]) -> BTreeMap<AxisId, Self> {
        let used = used_nodes(kernel);
        let mut found: BTreeMap<AxisId, Self> = BTreeMap::new();
        let mut owners: BTreeMap<NodeId, AxisId> = BTreeMap::new();
        let mut shared: BTreeSet<AxisId> = BTreeSet::new();
        for &node in &used {
            let Some((axis, op, length)) = step(kernel, node) else {
                continue;
            };
            let steps = found.entry(axis).or_default();
            match op {
                ScalarOp::Lt | ScalarOp::Ge => steps.comparisons.insert(node),
                _ => steps.shifts.insert(node),
            };
            steps.lengths.insert(length);
            let owner = *owners.entry(length).or_insert(axis);
            if owner != axis {
                shared.extend([owner, axis]);
            }
        }
        shared.extend(roots.iter().filter_map(|root| owners.get(root)));
        for &node in used.iter().filter(|&&node| step(kernel, node).is_none()) {
            let operand = &mut |operand| shared.extend(owners.get(&operand));
            kernel.node(node).for_each_operand(operand);
        }
        found.retain(|axis, steps| {
            !shared.contains(axis) && steps.comparisons.len() <= MAX_COMPARISONS
        });
        found
    }

    /// Whether a node is one of the comparisons or shifts.
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.comparisons.contains(&node) || self.shifts.contains(&node)
    }
}

/// The axis, operation and length of a comparison or shift.
fn step(kernel: &Kernel, node: NodeId) -> Option<(AxisId, ScalarOp, NodeId)> {
    let Node::Apply { op, operands } = kernel.node(node) else {
        return None;
    };
    let (op @ (ScalarOp::Lt | ScalarOp::Ge | ScalarOp::Add | ScalarOp::Sub), &[left, right]) =
        (*op, operands.as_slice())
    else {
        return None;
    };
    match (kernel.node(left), kernel.node(right)) {
        (Node::Axis(axis), Node::Size(_) | Node::Literal(ScalarValue::I64(_))) => {
            Some((*axis, op, right))
        }
        _ => None,
    }
}
