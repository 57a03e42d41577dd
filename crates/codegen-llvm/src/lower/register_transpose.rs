//! Register-tile transpose: maps whose operand is contiguous along the tile's rows and strided along its vectors.
//!
//! Gathers would touch each cache line once per row. A tile with one row per lane of a vector loads one vector along
//! the rows for each lane, and transposes rows and columns in registers. Lanes past the end of a partial vector repeat
//! its last one.

use kiln_kernel::Store;
use kiln_schedule_cpu::transposed_loads;

use super::address::Address;
use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Loads and transposes the operands of a store, and records them as the elements of its rows.
    pub(super) fn load_transposed(
        &self,
        scope: &Scope<'ctx>,
        store: &Store,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let (Some(rows), Some(vectors), true) =
            (scope.rows, scope.vectors, self.transposes_rows(scope))
        else {
            return Ok(());
        };
        let loads = transposed_loads(self.kernel, &self.layout, store, rows.axis, vectors.axis);
        for (node, load, step) in loads {
            let dtype = self.kernel.buffer(load.buffer).dtype;
            let step = self.quantity(&step);
            for vector in 0..vectors.count {
                let first = Coordinate { row: 0, vector };
                let address =
                    self.buffer_address(scope, load.buffer, &load.indices, first, Form::First)?;
                let Address::Same(pointer) = address else {
                    continue;
                };
                // Lanes past the end of a row load its last element.
                let last = self.lanes_left(scope, first);
                let last = last.map(|left| emit.isub(left, emit.i64(1)));
                let columns = (0..vectors.lanes).map(|lane| {
                    let lane = emit.i64(i64::from(lane));
                    let lane = last.map_or(lane, |last| emit.smin(lane, last));
                    let column = emit.element(pointer, dtype, emit.imul(step, lane));
                    emit.load_dtype(dtype, vectors.lanes, column)
                });
                for (row, value) in (0..).zip(emit.transpose(columns.collect())) {
                    self.assume(scope, node, Coordinate { row, vector }, value);
                }
            }
        }
        Ok(())
    }

    /// Whether there are as many consecutive rows as a vector has lanes, all of which are in range.
    pub(super) fn transposes_rows(&self, scope: &Scope<'ctx>) -> bool {
        let (Some(rows), Some(vectors)) = (scope.rows, scope.vectors) else {
            return false;
        };
        // Repeated rows are not consecutive.
        let is_consecutive = !rows.spread && rows.repeats.is_none();
        is_consecutive && rows.count == vectors.lanes
    }
}
