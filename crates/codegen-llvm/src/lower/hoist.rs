//! Hoisting of loop-invariant loads.
//!
//! LLVM hoists arithmetic out of loops but not loads, since a loop may run zero times. Reading a local is always safe, and
//! so is reading an element at a constant index of a buffer of constant size; values computed from these alone are hoisted
//! here.

use std::collections::BTreeSet;

use kiln_kernel::analysis::is_fixed_load;
use kiln_kernel::{AxisId, Class, Node, NodeId};

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Computes the parts of some nodes that are invariant along all of the axes, in each row of the tile. Loads from
    /// other buffers, and operations that may fault, stay in place.
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
        let mut pending = roots.to_vec();
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) {
                continue;
            }
            if changes(node) || !self.unconditional.contains(node) {
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

    /// Hoists loads that are always safe and the same everywhere out of the vector loop of a map's outer axis: LLVM
    /// then hoists operations that depend only on them, such as those on the words of a key. Other classes need their
    /// registers.
    pub(super) fn hoist_fixed_loads(&self, scope: &Scope<'ctx>) -> Result<(), LlvmError> {
        if self.kernel.classification().class != Class::Map {
            return Ok(());
        }
        // Even the only element of a buffer may be read at an index that varies.
        let varies = |node| {
            let mut axes = self.kernel.axes().keys();
            axes.any(|axis| self.dependence.depends(node, axis))
        };
        for (node, data) in self.kernel.nodes() {
            if let Node::Load(load) = &data.node
                && is_fixed_load(self.kernel, load)
                && !varies(node)
            {
                self.value(scope, node, Coordinate::default(), Form::First)?;
            }
        }
        Ok(())
    }
}
