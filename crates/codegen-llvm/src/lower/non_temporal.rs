//! Non-temporal stores of results that exceed every cache.
//!
//! A line that is written as a whole need not be read first, and need not evict data that will be used again. One test per
//! row decides whether the result is that large and its rows are aligned for such stores; the loop is emitted twice.

use inkwell::IntPredicate;
use kiln_backend::Quantity;
use kiln_kernel::{AxisId, BufferId, Store};

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Runs the body of stores in vectors along an axis, starting at a multiple of the lanes, with non-temporal stores
    /// if they pay.
    pub(super) fn non_temporal_or_plain(
        &self,
        scope: &Scope<'ctx>,
        stores: &[&Store],
        (axis, begin): (AxisId, Value<'ctx>),
        lanes: u32,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let is_alone = scope.rows.is_none_or(|rows| rows.count == 1);
        if !is_alone {
            return body(scope);
        }
        let start = scope.with_axis(axis, begin);
        let mut pays: Option<Value<'ctx>> = None;
        for store in stores {
            let dtype = self.kernel.buffer(store.buffer).dtype;
            let (at, form) = (Coordinate::default(), Form::First);
            let address = self.buffer_address(&start, store.buffer, &store.indices, at, form)?;
            let bytes = lanes * dtype.size_in_bytes() as u32;
            let is_aligned = emit.is_aligned(address.pointer(), bytes);
            let large = emit.and(self.is_large(store.buffer), is_aligned);
            pays = Some(self.both(pays, large));
        }
        let Some(pays) = pays else {
            return body(scope);
        };
        self.uses_non_temporal_stores.set(true);
        let body = &mut |scope: &Scope<'ctx>, _: &[_]| body(scope).map(|()| Vec::new());
        self.in_either(pays, (&scope.non_temporal(), scope), body, &[])?;
        Ok(())
    }

    /// Whether a buffer is larger than the part that a reader would find in a cache.
    ///
    /// The limit was measured: if a result takes more than half of the last-level cache, and as much is read besides,
    /// writing it past the caches and reading it back from memory is faster than writing it through the caches.
    pub(super) fn is_large(&self, buffer: BufferId) -> Value<'ctx> {
        let data = self.kernel.buffer(buffer);
        let size = Quantity::constant(2 * data.dtype.size_in_bytes() as i64);
        let twice = data.shape.iter().fold(size, |bytes, &dim| {
            bytes * Quantity::of(self.kernel.dims(), dim)
        });
        let (twice, cache) = (self.quantity(&twice), self.quantity(&Quantity::cache(3)));
        self.emit.icmp(IntPredicate::SGT, twice, cache)
    }

    /// Fences non-temporal stores, if there are any, before completion is signalled.
    pub(super) fn fence_non_temporal_stores(&self) {
        if self.uses_non_temporal_stores.get() {
            self.emit.store_fence();
        }
    }

    /// Whether a vector is stored non-temporally: whole, with every lane in range.
    pub(super) fn is_stored_non_temporally(&self, scope: &Scope<'ctx>, value: Value<'ctx>) -> bool {
        let vectors = scope.vectors.filter(|_| scope.is_non_temporal());
        vectors.is_some_and(|vectors| crate::emit::lanes(value) == vectors.lanes)
    }
}
