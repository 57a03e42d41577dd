//! Loop splitting: finds values selected by position along an axis, as in a concatenation.
//!
//! In the kernel each element is a selection between all parts. On either side of a boundary the selection is known,
//! and the other part is neither computed nor loaded.

use std::collections::BTreeSet;

use kiln_scalar::{ScalarOp, ScalarValue};

use super::{Dependence, expression_nodes, may_fault};
use crate::form::{AxisId, Item, Kernel, Node, NodeId};
use crate::verified::VerifiedKernel;

/// Where one part ends and the next begins: a condition `index < end` on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The condition, tested by a `select` of the kernel.
    pub condition: NodeId,
    /// The first index of the next part; the same at every point.
    pub end: NodeId,
}

impl Boundary {
    /// The boundaries along an outer axis in the stored values of a kernel of stores alone, the outermost of nested
    /// selections first. Empty where an operand of a selection may fault, since every element's faults are reported
    /// whatever is selected.
    pub fn all(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> Vec<Self> {
        let mut roots = Vec::new();
        for item in kernel.items() {
            match item {
                Item::Store(store) if store.axes.is_empty() => roots.push(store.value),
                _ => return Vec::new(),
            }
        }
        let below: BTreeSet<NodeId> = expression_nodes(kernel, &roots).into_iter().collect();
        if below.iter().any(|&node| may_fault(kernel, node)) {
            return Vec::new();
        }
        let is_same_everywhere = |node: NodeId| {
            let mut axes = kernel.axes().keys();
            axes.all(|axis| !dependence.depends(node, axis))
        };
        let mut boundaries: Vec<Self> = Vec::new();
        // Operands come first, and the outermost of nested selections is to be split first.
        for &node in below.iter().rev() {
            let Node::Apply {
                op: ScalarOp::Select,
                operands,
            } = kernel.node(node)
            else {
                continue;
            };
            let Some(&condition) = operands.first() else {
                continue;
            };
            let Node::Apply {
                op: ScalarOp::Lt,
                operands,
            } = kernel.node(condition)
            else {
                continue;
            };
            if let [index, end] = *operands.as_slice()
                && *kernel.node(index) == Node::Axis(axis)
                && is_same_everywhere(end)
                && boundaries.iter().all(|known| known.condition != condition)
            {
                boundaries.push(Self { condition, end });
            }
        }
        boundaries
    }

    /// The boundary, if it is a literal in the kernel.
    pub fn constant_end(self, kernel: &Kernel) -> Option<i64> {
        match *kernel.node(self.end) {
            Node::Literal(ScalarValue::I64(end)) => Some(end),
            Node::Size(size) => kernel.dims().as_constant(size),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel};
    use super::*;

    /// The boundaries along `i` of a stored value: a number, or `None` if unknown.
    fn ends(value: &str) -> Vec<Option<i64>> {
        let kernel = kernel(&format!(
            "kernel @k(%x: in f32[N], %y: in i32[N], %n: in i64[1], %o: out f32[N]) where N >= 1 {{
               outer i < N
               store %o[i] = {value}
             }}"
        ));
        let dependence = Dependence::of(&kernel);
        let found = Boundary::all(&kernel, &dependence, axis(&kernel, "i"));
        let ends = found.iter().map(|found| found.constant_end(&kernel));
        ends.collect()
    }

    #[test]
    fn nested_boundaries_are_listed_outermost_first() {
        let nested = "select(i < 8, 1.0, select(i < 24, %x[i], 2.0))";
        assert_eq!(ends(nested), [Some(8), Some(24)]);
        assert_eq!(ends("select(i < N - 1, %x[i], 2.0)"), [None]);
    }

    #[test]
    fn shifted_or_loaded_conditions_are_not_boundaries() {
        assert_eq!(ends("select(i + 1 < 8, %x[i], 2.0)"), []);
        assert_eq!(ends("select(%x[i] < 8.0, %x[i], 2.0)"), []);
    }

    #[test]
    fn values_that_may_fault_have_no_boundary() {
        assert_eq!(ends("select(i < 8, f32(%y[i] / %y[i]), 2.0)"), []);
        assert_eq!(ends("select(i < 8, %x[%n[0]], 2.0)"), []);
        assert_eq!(ends("select(i < 8, f32(%y[i] / i32(3)), 2.0)"), [Some(8)]);
    }
}
