//! Gathers and scatters.

use super::GraphBuilder;
use crate::error::InferError;
use kiln_ir::{Combine, Indices, Op, ValueId};

impl GraphBuilder {
    /// Slices of `x` along `axis` at `indices`.
    ///
    /// # Errors
    /// When `axis` does not exist, or the indices are not integers.
    pub fn gather(
        &mut self,
        x: ValueId,
        indices: ValueId,
        axis: usize,
    ) -> Result<ValueId, InferError> {
        self.op1(Op::Gather { axis }, &[x, indices])
    }

    /// Elements of `x` whose position along `axis` is given.
    ///
    /// # Errors
    /// When ranks differ, or the indices are not integers.
    pub fn gather_elements(
        &mut self,
        x: ValueId,
        indices: ValueId,
        axis: usize,
    ) -> Result<ValueId, InferError> {
        self.op1(Op::GatherElements { axis }, &[x, indices])
    }

    /// Slices of `x` whose addresses are the innermost axis of `indices`.
    ///
    /// # Errors
    /// When the addresses are longer than the rank, or of unknown length.
    pub fn gather_nd(
        &mut self,
        x: ValueId,
        indices: ValueId,
        batch_axes: usize,
    ) -> Result<ValueId, InferError> {
        self.op1(Op::GatherNd { batch_axes }, &[x, indices])
    }

    /// `x` with `updates` placed as [`gather_elements`](Self::gather_elements) reads.
    ///
    /// # Errors
    /// When ranks or dtypes differ.
    pub fn scatter_elements(
        &mut self,
        x: ValueId,
        indices: ValueId,
        updates: ValueId,
        axis: usize,
        combine: Combine,
    ) -> Result<ValueId, InferError> {
        self.op1(
            Op::ScatterElements { axis, combine },
            &[x, indices, updates],
        )
    }

    /// `x` with `updates` placed as [`gather_nd`](Self::gather_nd) reads.
    ///
    /// # Errors
    /// When the updates never have the size of the addressed part, or dtypes differ.
    pub fn scatter_nd(
        &mut self,
        x: ValueId,
        indices: ValueId,
        updates: ValueId,
        combine: Combine,
    ) -> Result<ValueId, InferError> {
        self.op1(Op::ScatterNd { combine }, &[x, indices, updates])
    }

    /// `x` with `update` in place of the part that begins at `at` along `axes`: `at` has one integer per axis, and the
    /// sizes of other axes are equal. A part outside `x` is a fault of the call.
    ///
    /// # Errors
    /// When ranks, dtypes or sizes differ, `axes` are not ascending axes of `x`, or the update is never within it.
    pub fn update_slice(
        &mut self,
        x: ValueId,
        at: ValueId,
        update: ValueId,
        axes: &[usize],
    ) -> Result<ValueId, InferError> {
        let axes = Indices::from_slice(axes);
        self.op1(Op::UpdateSlice { axes }, &[x, at, update])
    }
}
