//! Stores: plain stores, and stores that combine with the current element.

use cranelift_entity::EntityRef;

use super::KernelBuilder;
use crate::error::KernelError;
use crate::form::ids::{AxisId, BufferId, NodeId};
use crate::form::item::{Combine, Item, Store};

impl KernelBuilder {
    /// Writes `value` at `indices` for every point of `axes`.
    pub fn store(
        &mut self,
        axes: impl IntoIterator<Item = AxisId>,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        value: NodeId,
    ) {
        self.push_store(Store {
            axes: axes.into_iter().collect(),
            buffer,
            indices: indices.into_iter().collect(),
            value,
            combine: None,
        });
    }

    /// Combines `value` with the element at `indices`, for every point of `axes`.
    pub fn combine(
        &mut self,
        combine: Combine,
        axes: impl IntoIterator<Item = AxisId>,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        value: NodeId,
    ) {
        self.push_store(Store {
            axes: axes.into_iter().collect(),
            buffer,
            indices: indices.into_iter().collect(),
            value,
            combine: Some(combine),
        });
    }

    /// Any store, after the items so far.
    pub fn push_store(&mut self, store: Store) {
        match self.kernel.buffers.get(store.buffer) {
            Some(buffer) => {
                let (dtype, rank) = (buffer.dtype, buffer.rank());
                if rank != store.indices.len() {
                    self.fail(KernelError::IndexCount {
                        what: format!("%{}", self.kernel.buffers[store.buffer].name),
                        expected: rank,
                        found: store.indices.len(),
                    });
                }
                self.expect_dtype(store.value, dtype, "a stored value");
                self.expect_indices(&store.indices);
            }
            None => self.fail(KernelError::unknown("buffer", store.buffer.index())),
        }
        self.push_item(Item::Store(store));
    }
}
