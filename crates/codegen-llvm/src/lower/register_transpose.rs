//! Register-tile transpose: maps whose operand is contiguous along the tile's rows and strided along its vectors.
//!
//! Gathers would touch each cache line once per row. A tile of as many rows as a vector has lanes loads one vector along
//! the rows for each lane, and transposes rows and columns in registers.

use kiln_backend::Quantity;
use kiln_kernel::analysis::expression_nodes;
use kiln_kernel::{AxisId, IndexClass, Item, Load, Node, NodeId, Store};
use kiln_schedule_cpu::n_operations;

use super::access::Address;
use super::context::Lowering;
use super::scope::{Coordinate, Form, Scope, Vectors};
use crate::error::LlvmError;

/// Expressions of at most this many operations are emitted once for each row of a transposed tile.
const OPERATIONS_LIMIT: usize = 32;

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Whether a store reads transposed operands in a tile, and is short enough to be emitted row by row.
    pub(super) fn stores_transposed(&self, scope: &Scope<'ctx>, item: &Item) -> bool {
        let Item::Store(store) = item else {
            return false;
        };
        n_operations(self.kernel, store.value) <= OPERATIONS_LIMIT
            && !self.transposed_loads(scope, store).is_empty()
    }

    /// Loads and transposes the operands of a store, so that its rows find their elements.
    pub(super) fn load_transposed(
        &self,
        scope: &Scope<'ctx>,
        store: &Store,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Some(vectors) = scope.vectors else {
            return Ok(());
        };
        for (node, load, step) in self.transposed_loads(scope, store) {
            let dtype = self.kernel.buffer(load.buffer).dtype;
            let step = self.quantity(&step);
            for vector in 0..vectors.count {
                let first = Coordinate { row: 0, vector };
                let address =
                    self.buffer_address(scope, load.buffer, &load.indices, first, Form::First)?;
                let Address::Same(pointer) = address else {
                    continue;
                };
                let columns = (0..vectors.lanes).map(|lane| {
                    let elements = emit.imul(step, emit.i64(i64::from(lane)));
                    let column = emit.element(pointer, dtype, elements);
                    emit.load_dtype(dtype, vectors.lanes, column)
                });
                for (row, value) in (0..).zip(emit.transpose(columns.collect())) {
                    self.assume(scope, node, Coordinate { row, vector }, value);
                }
            }
        }
        Ok(())
    }

    /// The loads of a store that are transposed in a full tile, with their stride along the vectors.
    fn transposed_loads(
        &self,
        scope: &Scope<'ctx>,
        store: &Store,
    ) -> Vec<(NodeId, &Load, Quantity)> {
        let (Some(rows), Some(vectors)) = (scope.rows, scope.vectors) else {
            return Vec::new();
        };
        // Repeated rows are not consecutive.
        let is_plain = !rows.spread && rows.repeats.is_none();
        let is_full = rows.count == vectors.lanes && vectors.left.is_none() && is_plain;
        if !is_full || !store.axes.is_empty() {
            return Vec::new();
        }
        let below = expression_nodes(self.kernel, &[store.value]).into_iter();
        below
            .filter_map(|node| {
                let Node::Load(load) = self.kernel.node(node) else {
                    return None;
                };
                let step = self.step_of_transposed_load(node, load, rows.axis, &vectors)?;
                Some((node, load, step))
            })
            .collect()
    }

    fn step_of_transposed_load(
        &self,
        node: NodeId,
        load: &Load,
        rows: AxisId,
        vectors: &Vectors<'ctx>,
    ) -> Option<Quantity> {
        let classes = &self.kernel.info().loads[node];
        let is_there = load.guard.is_none()
            && self.layout.pack(load.buffer).is_none()
            && classes.iter().all(|class| *class == IndexClass::Proved);
        let along_rows = self.layout.movement(node, rows)?;
        let step = self.layout.movement(node, vectors.axis)?;
        let is_apart = !matches!(step.as_constant(), Some(0..=2));
        (is_there && along_rows.as_constant() == Some(1) && is_apart).then_some(step)
    }
}
