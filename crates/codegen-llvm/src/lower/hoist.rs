//! What a loop does not change is computed before it.
//!
//! LLVM moves arithmetic out of loops, but no load: a loop may run no times. A local is always there to be read, and so
//! is an element at a fixed place of a buffer of a fixed size; what is made of them alone can be computed whether or not
//! the loop runs.

use std::collections::{BTreeSet, HashMap};

use kiln_kernel::{AxisId, Class, Load, Node, NodeId, Role};
use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::DimId;

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

    /// Loads what is always there before the vectors of a map's outer axis: LLVM then moves what is made of it alone, such
    /// as the words of a key, out of their loops. Other classes need their registers.
    pub(super) fn hoist_fixed_loads(&self, scope: &Scope<'ctx>) -> Result<(), LlvmError> {
        if self.kernel.classification().class != Class::Map {
            return Ok(());
        }
        for (node, data) in self.kernel.nodes() {
            if let Node::Load(load) = &data.node
                && self.is_fixed(load)
            {
                self.value(scope, node, Coordinate::default(), Form::First)?;
            }
        }
        Ok(())
    }

    /// Whether a load is of an element that a buffer has whatever the sizes, and that nothing writes.
    fn is_fixed(&self, load: &Load) -> bool {
        let dims = self.kernel.dims();
        let buffer = self.kernel.buffer(load.buffer);
        let is_there = |(&index, &dim): (&NodeId, &DimId)| match dims.as_constant(dim) {
            Some(1) => true,
            Some(size) => matches!(
                *self.kernel.node(index),
                Node::Literal(ScalarValue::I64(at)) if (0..size).contains(&at)
            ),
            None => false,
        };
        load.guard.is_none()
            && matches!(buffer.role, Role::In | Role::Const)
            && load.indices.iter().zip(&buffer.shape).all(is_there)
    }

    /// Whether a node is float arithmetic on locals, sizes, literals and fixed elements.
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
                Node::Load(load) => self.is_fixed(load),
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
