//! Loop splitting at the boundaries of a piecewise value, such as a concatenation, along the vectorised axis.
//!
//! In the kernel every element selects between all pieces. Most vectors are within one piece, and then the others are
//! neither computed nor loaded. Where pieces follow each other along another axis, the loop is unswitched: it is emitted
//! once per piece.

use std::collections::BTreeSet;

use inkwell::IntPredicate;
use kiln_kernel::analysis::Boundary;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Node, NodeId};
use kiln_scalar::ScalarOp;

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Runs the body for a set of vectors, once per piece that they may be in, and once for sets that cross a boundary.
    pub(super) fn split_at_boundaries(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        boundaries: &[Boundary],
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let Some((boundary, rest)) = boundaries.split_first() else {
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
        let end = self.value(scope, boundary.end, Coordinate::default(), Form::First)?;
        let is_before = emit.icmp(IntPredicate::SLE, emit.iadd(vectors.base, length), end);
        let before = scope.with_choice(boundary.condition, true);
        let after = scope.with_choice(boundary.condition, false);
        // A set starts at a multiple of its length; if the boundary is one too, the set is on one side of it.
        let is_aligned = boundary
            .constant_end(self.kernel)
            .is_some_and(|end| vectors.left.is_none() && end % most == 0);
        // Recurses once per boundary.
        self.either(is_before, &mut |is_before| {
            if is_before {
                return body(&before);
            }
            if is_aligned {
                return self.split_at_boundaries(&after, axis, rest, body);
            }
            let is_after = emit.icmp(IntPredicate::SGE, vectors.base, end);
            self.either(is_after, &mut |is_after| match is_after {
                true => self.split_at_boundaries(&after, axis, rest, body),
                false => body(scope),
            })
        })
    }

    /// Runs the body once per side of some conditions, with the side known, in at most `most` versions.
    pub(super) fn unswitched(
        &self,
        scope: &Scope<'ctx>,
        conditions: &[NodeId],
        most: u32,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let open = self.open(scope, conditions);
        let Some((&condition, rest)) = open.split_first().filter(|_| most > 1) else {
            return body(scope);
        };
        let value = self.value(scope, condition, Coordinate::default(), Form::First)?;
        let [before, after] = [true, false].map(|holds| scope.with_choice(condition, holds));
        // Of nested selections, one side decides the others too.
        let n_before = match [&before, &after].map(|side| self.open(side, rest).is_empty()) {
            [true, _] => 1,
            [_, true] => most - 1,
            _ => most / 2,
        };
        // Recurses once per condition.
        self.either(value, &mut |holds| match holds {
            true => self.unswitched(&before, rest, n_before, body),
            false => self.unswitched(&after, rest, most - n_before, body),
        })
    }

    /// The conditions whose side is still undecided.
    fn open(&self, scope: &Scope<'ctx>, conditions: &[NodeId]) -> Vec<NodeId> {
        let below = self.chosen_below(scope, &self.stored());
        let open = conditions.iter().copied();
        open.filter(|condition| below.contains(condition)).collect()
    }

    /// A node, or the operand that it takes if it is a select whose side is known.
    pub(super) fn resolved(&self, scope: &Scope<'ctx>, mut node: NodeId) -> NodeId {
        while let Some(chosen) = self.chosen(scope, node) {
            node = chosen;
        }
        node
    }

    /// The operand that a select takes, if that is known.
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

    /// The nodes below some roots, without the operands that known selects drop.
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
