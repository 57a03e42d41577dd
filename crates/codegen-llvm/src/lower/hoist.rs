//! What a loop does not change is computed before it.
//!
//! LLVM moves arithmetic out of loops, but no load: a loop may run no times. A local is always there to be read, and so
//! is a buffer of one element; what is made of them alone can be computed whether or not the loop runs.

use std::collections::{BTreeSet, HashMap};

use kiln_kernel::{AxisId, BufferId, Node, NodeId};

use super::context::Lowering;
use super::scope::{Coordinate, Form, Scope};
use crate::error::LlvmError;

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Computes the parts of some nodes that do not change along any of the axes, in each row of the tile. What loads
    /// from other buffers, or may fault, stays where it is.
    pub(super) fn hoist(
        &self,
        scope: &Scope<'ctx>,
        roots: &[NodeId],
        axes: &[AxisId],
    ) -> Result<(), LlvmError> {
        if axes.is_empty() || scope.vectors.is_some() {
            return Ok(());
        }
        let changes = |node| axes.iter().any(|&axis| self.dependence.depends(node, axis));
        let mut safe = HashMap::new();
        let mut pending = roots.to_vec();
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) {
                continue;
            }
            if changes(node) || !self.is_of_locals(node, &mut safe) {
                let operands = &mut |operand| pending.push(operand);
                self.kernel.node(node).for_each_operand(operands);
                continue;
            }
            let rows = scope
                .rows
                .filter(|rows| self.dependence.depends(node, rows.axis));
            for row in 0..rows.map_or(1, |rows| rows.count) {
                self.value(scope, node, Coordinate { row, vector: 0 }, Form::Lanes)?;
            }
        }
        Ok(())
    }

    /// Whether a buffer has one element, whatever the sizes.
    fn is_single(&self, buffer: BufferId) -> bool {
        let dims = self.kernel.dims();
        let shape = &self.kernel.buffer(buffer).shape;
        shape.iter().all(|&dim| dims.as_constant(dim) == Some(1))
    }

    /// Whether a node is float arithmetic on locals, sizes, literals and single elements.
    fn is_of_locals(&self, node: NodeId, safe: &mut HashMap<NodeId, bool>) -> bool {
        // Operands come before what they are operands of, so one pass upwards is enough.
        let mut pending = vec![node];
        let mut below = BTreeSet::new();
        while let Some(next) = pending.pop() {
            if !safe.contains_key(&next) && below.insert(next) {
                let operands = &mut |operand| pending.push(operand);
                self.kernel.node(next).for_each_operand(operands);
            }
        }
        for next in below {
            let mut is_safe = match self.kernel.node(next) {
                Node::Literal(_) | Node::Size(_) => true,
                Node::Local { indices, .. } => indices.is_empty(),
                Node::Load(load) => load.guard.is_none() && self.is_single(load.buffer),
                Node::Apply { .. } | Node::Call { .. } => self.kernel.dtype(next).is_float(),
                _ => false,
            };
            self.kernel.node(next).for_each_operand(&mut |operand| {
                is_safe &= safe.get(&operand).copied().unwrap_or(false);
            });
            safe.insert(next, is_safe);
        }
        safe.get(&node).copied().unwrap_or(false)
    }
}
