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
        // A set starts at a multiple of its length; where the boundary does too, it is on one side.
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

    /// Runs the body once per side of some conditions of nested selections, with the side known.
    pub(super) fn unswitched(
        &self,
        scope: &Scope<'ctx>,
        conditions: &[NodeId],
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let Some((&condition, rest)) = conditions.split_first() else {
            return body(scope);
        };
        let holds = self.value(scope, condition, Coordinate::default(), Form::First)?;
        // Recurses once per condition.
        self.either(holds, &mut |holds| {
            let scope = scope.with_choice(condition, holds);
            match holds {
                true => body(&scope),
                false => self.unswitched(&scope, rest, body),
            }
        })
    }

    /// The operand that a select takes, where that is known.
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
