//! Parts: values chosen by where along the vectors' axis an element is, as in a concatenation.
//!
//! To the kernel each element is a choice between all parts. Vectors lie in one of them, mostly, and then nothing of the
//! others is computed or loaded.

use std::collections::BTreeSet;

use inkwell::IntPredicate;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, IndexClass, Item, Node, NodeId, Role, VerifiedKernel};
use kiln_scalar::{ScalarOp, ScalarValue};

use super::context::Lowering;
use super::scope::{Coordinate, Form, Scope};
use crate::error::LlvmError;

/// More parts are not told apart: each is code of its own.
const MOST_CUTS: usize = 7;

/// Where one part ends and the next begins: a condition `index < end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    condition: NodeId,
    end: NodeId,
}

impl Cut {
    /// The cuts along an outer axis in what a kernel of stores alone stores.
    pub(crate) fn all(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> Vec<Self> {
        let mut roots = Vec::new();
        for item in kernel.items() {
            match item {
                Item::Store(store) if store.axes.is_empty() => roots.push(store.value),
                _ => return Vec::new(),
            }
        }
        let below = below(kernel, &roots);
        let may_fault = |&node: &NodeId| may_fault(kernel, node);
        if below.iter().any(may_fault) {
            return Vec::new();
        }
        let is_same_everywhere = |node: NodeId| {
            kernel
                .axes()
                .keys()
                .all(|axis| !dependence.depends(node, axis))
        };
        let mut cuts: Vec<Self> = Vec::new();
        // Operands come first, and of nested choices the outermost is to be made first.
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
                && cuts.iter().all(|cut| cut.condition != condition)
            {
                cuts.push(Self { condition, end });
            }
        }
        cuts.truncate(MOST_CUTS);
        cuts
    }

    /// Where the part ends, if that is a number in the kernel.
    pub(crate) fn constant(self, kernel: &VerifiedKernel) -> Option<i64> {
        match *kernel.node(self.end) {
            Node::Literal(ScalarValue::I64(end)) => Some(end),
            Node::Size(size) => kernel.dims().as_constant(size),
            _ => None,
        }
    }
}

/// Whether a node can be at fault, and so must be computed whatever becomes of it.
fn may_fault(kernel: &VerifiedKernel, node: NodeId) -> bool {
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
            let divisor = operands.get(1).map(|&divisor| kernel.node(divisor));
            !matches!(divisor, Some(Node::Literal(value)) if *value != ScalarValue::zero(value.dtype()))
        }
        Node::Apply {
            op: ScalarOp::Pow, ..
        } => !kernel.dtype(node).is_float(),
        Node::Apply { .. } | Node::Literal(_) | Node::Size(_) | Node::Axis(_) => false,
        Node::Call { .. } => !kernel.dtype(node).is_float(),
        Node::Local { .. } | Node::Previous { .. } | Node::Last { .. } => true,
    }
}

/// All that nodes are made of.
fn below(kernel: &VerifiedKernel, roots: &[NodeId]) -> BTreeSet<NodeId> {
    let mut pending = roots.to_vec();
    let mut below = BTreeSet::new();
    while let Some(node) = pending.pop() {
        if below.insert(node) {
            let operands = &mut |operand| pending.push(operand);
            kernel.node(node).for_each_operand(operands);
        }
    }
    below
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Runs the body for a set of vectors, once per part that they may lie in, and once for where they cross a border.
    pub(super) fn in_parts(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        cuts: &[Cut],
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let Some((cut, rest)) = cuts.split_first() else {
            return body(scope);
        };
        let Some(vectors) = scope.vectors.filter(|vectors| vectors.axis == axis) else {
            return body(scope);
        };
        let emit = &self.emit;
        let most = i64::from(vectors.lanes * vectors.count);
        let length = match vectors.left {
            Some(left) => emit.smin(left.elements, emit.i64(most)),
            None => emit.i64(most),
        };
        let length = match is_on(Fault::CrossedBorder) {
            true => emit.i64(1),
            false => length,
        };
        let end = self.value(scope, cut.end, Coordinate::default(), Form::First)?;
        let is_before = emit.icmp(IntPredicate::SLE, emit.iadd(vectors.base, length), end);
        let before = scope.with_choice(cut.condition, true);
        let after = scope.with_choice(cut.condition, false);
        // A set begins at a multiple of its length; where the border does too, it is on one side.
        let is_aligned = cut
            .constant(self.kernel)
            .is_some_and(|end| vectors.left.is_none() && end % most == 0);
        // As deep as there are cuts.
        self.either(is_before, &mut |is_before| {
            if is_before {
                return body(&before);
            }
            if is_aligned {
                return self.in_parts(&after, axis, rest, body);
            }
            let is_after = emit.icmp(IntPredicate::SGE, vectors.base, end);
            self.either(is_after, &mut |is_after| match is_after {
                true => self.in_parts(&after, axis, rest, body),
                false => body(scope),
            })
        })
    }

    /// The operand that a choice takes, where that is known.
    pub(super) fn chosen(&self, scope: &Scope<'ctx>, node: NodeId) -> Option<NodeId> {
        let Node::Apply {
            op: ScalarOp::Select,
            operands,
        } = self.kernel.node(node)
        else {
            return None;
        };
        let &[condition, then, otherwise] = operands.as_slice() else {
            return None;
        };
        let is_true = scope.choice(condition)?;
        Some(if is_true { then } else { otherwise })
    }

    /// What nodes are made of, choices that are made left out.
    pub(super) fn chosen_below(&self, scope: &Scope<'ctx>, roots: &[NodeId]) -> BTreeSet<NodeId> {
        let mut pending = roots.to_vec();
        let mut below = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !below.insert(node) {
                continue;
            }
            match self.chosen(scope, node) {
                Some(chosen) => pending.push(chosen),
                None => {
                    let operands = &mut |operand| pending.push(operand);
                    self.kernel.node(node).for_each_operand(operands);
                }
            }
        }
        below
    }
}
