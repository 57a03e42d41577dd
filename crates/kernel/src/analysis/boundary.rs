//! Loop splitting: finds values selected by position along an axis, as in a concatenation.
//!
//! In the kernel, each element selects between all operands of the concatenation. On either side of a boundary the
//! selection is known, and the other operand is neither computed nor loaded.

use std::collections::BTreeSet;

use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

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
    /// The boundaries along an outer axis in the stored values of a kernel that consists only of stores, the outermost
    /// of nested selections first. Empty if an operand of a selection may fault, since faults of every element are
    /// reported regardless of the selection.
    pub fn all(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> Vec<Self> {
        let is_same_everywhere = |node: NodeId| {
            let mut axes = kernel.axes().keys();
            axes.all(|axis| !dependence.depends(node, axis))
        };
        let mut boundaries: Vec<Self> = Vec::new();
        for selection in selections(kernel) {
            let Node::Apply {
                op: ScalarOp::Lt,
                operands,
            } = kernel.node(selection.condition)
            else {
                continue;
            };
            if let [index, end] = *operands.as_slice()
                && *kernel.node(index) == Node::Axis(axis)
                && is_same_everywhere(end)
            {
                let condition = selection.condition;
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

/// The conditions of selections that are the same at all points along some axes, so that they are known outside the
/// loops over these: between loaded elements, and between indices that vary along the axes, such as that of an operand
/// whose size may be 1. The outermost of nested selections first. Empty if [`Boundary::all`] is.
pub fn invariant_conditions(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    along: &[AxisId],
) -> Vec<NodeId> {
    let is_load = |node: NodeId| matches!(kernel.node(node), Node::Load(_));
    let varies = |node: NodeId| along.iter().any(|&axis| dependence.depends(node, axis));
    let pays = |selection: &Selection| {
        let operands = selection.operands;
        let is_index = kernel.dtype(operands[0]) == DType::I64;
        let mut below = expression_nodes(kernel, &operands).into_iter();
        (is_index && operands.iter().any(|&node| varies(node))) || below.any(is_load)
    };
    let invariant = selections(kernel)
        .into_iter()
        .filter(|selection| !varies(selection.condition) && pays(selection));
    invariant.map(|selection| selection.condition).collect()
}

/// A `select` of a kernel.
struct Selection {
    condition: NodeId,
    /// The operands from which it selects.
    operands: [NodeId; 2],
}

/// The selections in the stored values of a kernel that consists only of stores, one for each condition, the outermost
/// of nested ones first. Empty if a node may fault, since faults of every element are reported regardless of the
/// selection.
fn selections(kernel: &VerifiedKernel) -> Vec<Selection> {
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
    let mut selections: Vec<Selection> = Vec::new();
    // Operands come first, and the outermost of nested selections is wanted first.
    for &node in below.iter().rev() {
        if let Node::Apply {
            op: ScalarOp::Select,
            operands,
        } = kernel.node(node)
            && let [condition, then, otherwise] = *operands.as_slice()
            && selections.iter().all(|known| known.condition != condition)
        {
            let operands = [then, otherwise];
            selections.push(Selection {
                condition,
                operands,
            });
        }
    }
    selections
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

    #[test]
    fn invariant_conditions_select_loaded_elements_outside_a_loop() {
        let found = |value: &str| {
            let kernel = kernel(&format!(
                "kernel @k(%x: in f32[M, N], %o: out f32[M, N]) {{
                   outer m < M, n < N
                   store %o[m, n] = {value}
                 }}"
            ));
            let dependence = Dependence::of(&kernel);
            invariant_conditions(&kernel, &dependence, &[axis(&kernel, "n")]).len()
        };
        assert_eq!(
            found("select(m < 8, %x[m, n], select(N < 4, 1.0, %x[m, n]))"),
            2
        );
        assert_eq!(found("select(n < 8, %x[m, n], 2.0)"), 0);
        assert_eq!(found("select(m < 8, 1.0, 2.0)"), 0, "cheaper than a branch");
        assert_eq!(found("%x[select(M == 1, 0, m), select(N == 1, 0, n)]"), 1);
    }
}
