//! Which nodes may be dropped although they might fault, and which may be computed speculatively.

use cranelift_entity::SecondaryMap;
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;

use super::integer_literal;
use crate::form::{Kernel, Load, Node, NodeId, Role};
use crate::verified::{IndexClass, VerifiedKernel};

/// Whether a node itself can fault, or reads elements that the kernel writes: it must then be computed exactly where
/// the kernel places it.
pub fn may_fault(kernel: &VerifiedKernel, node: NodeId) -> bool {
    match kernel.node(node) {
        Node::Load(load) => {
            let is_written = kernel.buffer(load.buffer).role != Role::In
                && kernel.buffer(load.buffer).role != Role::Const;
            is_written || kernel.info().loads[node].contains(&IndexClass::Checked)
        }
        Node::Apply {
            op: ScalarOp::Div | ScalarOp::Rem | ScalarOp::FloorDiv | ScalarOp::FloorMod,
            operands,
        } if !kernel.dtype(node).is_float() => {
            let divisor = operands.get(1);
            !divisor.is_some_and(|&divisor| is_never_zero(kernel, divisor))
        }
        Node::Apply {
            op: ScalarOp::Pow, ..
        } => !kernel.dtype(node).is_float(),
        Node::Apply { .. } | Node::Literal(_) | Node::Size(_) | Node::Axis(_) => false,
        Node::Call { .. } => !kernel.dtype(node).is_float(),
        Node::Local { .. } | Node::Previous { .. } | Node::Last { .. } => true,
    }
}

/// Whether an integer is a literal other than zero, or the maximum of any value and a positive literal.
fn is_never_zero(kernel: &Kernel, node: NodeId) -> bool {
    let is_positive = |&operand: &NodeId| integer_literal(kernel, operand) > Some(0);
    match kernel.node(node) {
        Node::Literal(value) => *value != ScalarValue::zero(value.dtype()),
        Node::Apply {
            op: ScalarOp::Max,
            operands,
        } => operands.iter().any(is_positive),
        _ => false,
    }
}

/// Whether a load reads an element that its buffer has for all sizes, and that nothing writes.
pub fn is_fixed_load(kernel: &Kernel, load: &Load) -> bool {
    let dims = kernel.dims();
    let buffer = kernel.buffer(load.buffer);
    let is_there = |(&index, &dim): (&NodeId, &DimId)| match dims.as_constant(dim) {
        Some(1) => true,
        Some(size) => matches!(
            *kernel.node(index),
            Node::Literal(ScalarValue::I64(at)) if (0..size).contains(&at)
        ),
        None => false,
    };
    load.guard.is_none()
        && matches!(buffer.role, Role::In | Role::Const)
        && load.indices.iter().zip(&buffer.shape).all(is_there)
}

/// The nodes that may be computed before it is known whether they are needed, such as before a loop that may have no
/// iterations: float arithmetic on scalar locals, sizes, literals and elements that always exist.
#[derive(Clone, Debug)]
pub struct Unconditional(SecondaryMap<NodeId, bool>);

impl Unconditional {
    /// The unconditional nodes of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let mut nodes = SecondaryMap::new();
        // Operands come before their users.
        for (id, data) in kernel.nodes() {
            let mut is_safe = match &data.node {
                Node::Literal(_) | Node::Size(_) => true,
                Node::Local { indices, .. } => indices.is_empty(),
                Node::Load(load) => is_fixed_load(kernel, load),
                Node::Apply { .. } | Node::Call { .. } => data.dtype.is_float(),
                _ => false,
            };
            let operands = &mut |operand| is_safe &= nodes[operand];
            data.node.for_each_operand(operands);
            nodes[id] = is_safe;
        }
        Self(nodes)
    }

    /// Whether a node is one of them.
    pub fn contains(&self, node: NodeId) -> bool {
        self.0[node]
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression_nodes;
    use super::super::testing::{kernel, stored};
    use super::*;

    fn stored_by(value: &str) -> VerifiedKernel {
        kernel(&format!(
            "kernel @k(%x: in f32[N], %w: const f32[4], %b: in f32[1], %y: out f32[N]) {{
               outer i < N
               s = reduce add[k < N] %x[k]
               a[j < N] = %x[j] * 2.0
               store %y[i] = {value}
             }}"
        ))
    }

    #[test]
    fn unconditional_values_exclude_loads_that_may_be_out_of_bounds() {
        let is_safe = |value: &str| {
            let kernel = stored_by(value);
            Unconditional::of(&kernel).contains(stored(&kernel))
        };
        assert!(is_safe("exp(s * %w[2]) + %b[0]"));
        assert!(!is_safe("s * %x[i]"), "there may be no such element");
        assert!(!is_safe("s * a[i]"), "nor such an element of a local");
    }

    #[test]
    fn float_arithmetic_never_faults_and_locals_are_not_hoisted() {
        let may = |value: &str| {
            let kernel = stored_by(value);
            let mut nodes = expression_nodes(&kernel, &[stored(&kernel)]).into_iter();
            nodes.any(|node| may_fault(&kernel, node))
        };
        assert!(!may("%x[i] / %w[1]"));
        assert!(!may("%x[i]"));
        assert!(may("s"));
        assert!(may("%x[i64(%w[0])]"), "an index that is data");
        assert!(may("f32(i % N)"));
        assert!(!may("f32(i % max(N, 1))"));
    }
}
