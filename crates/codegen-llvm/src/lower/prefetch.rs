//! Software prefetch of rows, results and packed weights.
//!
//! A row kernel makes several passes over a row: the first is bound by memory, while the later ones find the row in the
//! cache and leave memory idle. The later passes prefetch the next row, and the first pass prefetches the lines of the
//! row's results.

use kiln_backend::{PackAxis, Quantity};
use kiln_kernel::{AxisId, Load, NodeId, Store};
use kiln_schedule_cpu::packed_strides;

use super::address::Address;
use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Rows, Scope, Vectors};
use crate::emit::{Intent, Value};
use crate::error::LlvmError;

/// Bytes of a cache line.
const LINE: u32 = 64;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Prefetches further ahead in a packed operand. A tile of many rows computes with each line for so long that the
    /// out-of-order window of a core, a few hundred instructions, would load the next lines too late.
    pub(super) fn prefetch_packed_ahead(
        &self,
        scope: &Scope<'ctx>,
        load: &Load,
        pointer: Value<'ctx>,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let (Some(rows), Some(vectors), Some(pack)) =
            (scope.rows, scope.vectors, self.layout.pack(load.buffer))
        else {
            return Ok(());
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let prefetch = &self.nest.loops.prefetch;
        let ahead = i64::from(prefetch.packed);
        let (strides, _) = packed_strides(self.kernel, pack);
        // The loads of a short block are early enough.
        let is_long = ahead > 0
            && strides.first().is_some_and(|block| {
                let elements = ahead / dtype.size_in_bytes() as i64;
                block.as_constant().is_none_or(|block| block > elements)
            });
        if !is_long || !starts_line(&vectors, dtype.size_in_bytes(), at) {
            return Ok(());
        }
        if rows.count >= 2 && rows.count <= prefetch.shared_rows {
            return self.prefetch_share_of_next_block(scope, &rows, load, at);
        }
        if rows.count >= 2 {
            let ahead = self.emit.offset(pointer, self.emit.i64(ahead));
            self.emit.prefetch(ahead, Intent::ReadLater);
        }
        Ok(())
    }

    /// Prefetches what a tile of few rows, or the one after it, will read.
    ///
    /// If a few such tiles read a block one after the other, the first would wait for memory, and memory would be idle
    /// during the others. So each tile prefetches a share of the next block, proportional to its rows.
    fn prefetch_share_of_next_block(
        &self,
        scope: &Scope<'ctx>,
        rows: &Rows<'ctx>,
        load: &Load,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Some(pack) = self.layout.pack(load.buffer) else {
            return Ok(());
        };
        let (mut strides, _) = packed_strides(self.kernel, pack);
        let [block, inner @ ..] = strides.as_mut_slice() else {
            return Ok(());
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let all = self.bound(rows.axis).max(Quantity::constant(1));
        let mine = Quantity::constant(i64::from(rows.count));
        let shared = self.nest.prefetch.shares_blocks(&all, &mine);
        let alone = Quantity::constant(1) - shared.clone();
        for (stride, axis) in inner.iter_mut().zip(pack.axes.iter().skip(1)) {
            if matches!(axis, PackAxis::Inner { .. }) {
                continue;
            }
            let share = (stride.clone() * mine.clone()).floor_div(all.clone());
            *stride = alone.clone() * stride.clone() + shared.clone() * share;
        }
        let ahead = i64::from(self.nest.loops.prefetch.packed);
        let ahead = Quantity::constant(ahead / dtype.size_in_bytes() as i64);
        let ahead = alone * ahead + shared.clone() * block.clone();
        let per_row = shared * block.clone().floor_div(all);
        let place = self.packed_place(scope, (pack, &strides), &load.indices, at)?;
        let ahead = emit.iadd(self.quantity(&ahead), emit.i64(place.fixed));
        let ahead = emit.iadd(ahead, emit.imul(rows.base, self.quantity(&per_row)));
        let element = emit.iadd(place.element, ahead);
        let pointer = emit.element(self.base(load.buffer), dtype, element);
        emit.prefetch(pointer, Intent::ReadLater);
        Ok(())
    }

    /// Prefetches the next rows of a load, if its schedule says so.
    pub(super) fn prefetch_next_rows(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        load: &Load,
        pointer: Value<'ctx>,
        at: Coordinate,
    ) {
        let asks = self.nest.prefetch.is_ahead(node);
        let Some(vectors) = scope.vectors.filter(|_| asks) else {
            return;
        };
        // In unit order the rows of a tile are first; without rows, the last of the outer axes is.
        let (axis, rows) = match (scope.rows, self.kernel.outer().last()) {
            (Some(rows), _) => (rows.axis, self.nest.prefetch.rows_ahead),
            (None, Some(&axis)) => (axis, 1),
            (None, None) => return,
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        if !starts_line(&vectors, dtype.size_in_bytes(), at) {
            return;
        }
        if let Some(step) = self.step_along(load, axis) {
            let emit = &self.emit;
            let step = step * Quantity::constant(i64::from(rows));
            let next = emit.element(pointer, dtype, self.quantity(&step));
            emit.prefetch(next, Intent::Read);
        }
    }

    /// Prefetches the lines that will be written at some points of the tile, in a loop over the axis that the first item
    /// reduces.
    pub(super) fn prefetch_results(
        &self,
        scope: &Scope<'ctx>,
        points: &[Coordinate],
    ) -> Result<(), LlvmError> {
        let Some(vectors) = scope.vectors else {
            return Ok(());
        };
        for (store, axis) in self.nest.prefetch.stores_along(self.kernel, vectors.axis) {
            let scope = scope.with_vectors(Vectors { axis, ..vectors });
            for &at in points {
                self.prefetch_result(&scope, &vectors, store, at)?;
            }
        }
        Ok(())
    }

    fn prefetch_result(
        &self,
        scope: &Scope<'ctx>,
        vectors: &Vectors<'ctx>,
        store: &Store,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let dtype = self.kernel.buffer(store.buffer).dtype;
        if starts_line(vectors, dtype.size_in_bytes(), at) {
            let address =
                self.buffer_address(scope, store.buffer, &store.indices, at, Form::Lanes)?;
            if let Address::Consecutive(pointer) = address {
                // Non-temporal results must not be brought into the caches.
                let streamed = self.is_large(store.buffer);
                let pointer = self.emit.select(streamed, self.dummy(), pointer);
                self.emit.prefetch(pointer, Intent::Write);
            }
        }
        Ok(())
    }

    fn step_along(&self, load: &Load, axis: AxisId) -> Option<Quantity> {
        let mut step = Quantity::constant(0);
        for (position, &index) in load.indices.iter().enumerate() {
            let along = self.dependence.step_along(self.kernel, index, axis)?;
            step = step + self.layout.stride(load.buffer, position) * Quantity::constant(along);
        }
        (step.as_constant() != Some(0)).then_some(step)
    }
}

/// Whether a vector is the first of its line: one prefetch per line is enough.
fn starts_line(vectors: &Vectors<'_>, bytes: usize, at: Coordinate) -> bool {
    let of_vector = vectors.lanes * bytes as u32;
    at.vector.is_multiple_of((LINE / of_vector.max(1)).max(1))
}
