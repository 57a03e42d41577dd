//! Copies with some elements replaced, corresponding to `x[i] = y` and `x[i] += y` in other libraries.

use super::{Operand, Var};
use crate::size::Size;
use kiln_ir::Combine;

impl Var {
    /// Replaces slices along the first axis: `indices: int[i..]` has their positions, `updates: [i.., rest of this]`
    /// the new slices. If several have the same position, the last wins. A position out of bounds is a fault of the
    /// call.
    #[must_use]
    #[track_caller]
    pub fn set_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Set)
    }

    /// Adds updates to slices along the first axis, as [`set_at`](Self::set_at); several updates of one position are
    /// all added.
    #[must_use]
    #[track_caller]
    pub fn add_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Add)
    }

    /// Multiplies slices along the first axis by updates, as [`add_at`](Self::add_at).
    #[must_use]
    #[track_caller]
    pub fn multiply_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Mul)
    }

    /// Takes the minimum of slices along the first axis and updates, as [`set_at`](Self::set_at).
    #[must_use]
    #[track_caller]
    pub fn min_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Min)
    }

    /// Takes the maximum of slices along the first axis and updates, as [`set_at`](Self::set_at).
    #[must_use]
    #[track_caller]
    pub fn max_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Max)
    }

    /// Replaces elements by their positions along an axis, as [`gather_elements`](Self::gather_elements) reads them:
    /// `indices` and `updates` have the same shape, and this variable's rank. If several have the same position, the
    /// last wins.
    #[must_use]
    #[track_caller]
    pub fn set_elements(
        &self,
        indices: impl AsRef<Var>,
        updates: impl AsRef<Var>,
        axis: i64,
    ) -> Var {
        self.scattered_elements(indices.as_ref(), updates.as_ref(), axis, Combine::Set)
    }

    /// Adds updates to elements by their positions along an axis, as [`set_elements`](Self::set_elements); several
    /// updates of one position are all added.
    #[must_use]
    #[track_caller]
    pub fn add_elements(
        &self,
        indices: impl AsRef<Var>,
        updates: impl AsRef<Var>,
        axis: i64,
    ) -> Var {
        self.scattered_elements(indices.as_ref(), updates.as_ref(), axis, Combine::Add)
    }

    /// Replaces the part that [`slice_step`](Self::slice_step) reads by a value that broadcasts to its shape:
    /// `x.set_slice(0, 1, 3, 1, 0)` is `x` after `x[1:3] = 0`.
    #[must_use]
    #[track_caller]
    pub fn set_slice(
        &self,
        axis: i64,
        start: impl Into<Size>,
        end: impl Into<Size>,
        step: i64,
        updates: impl Operand,
    ) -> Var {
        let (start, end) = (start.into(), end.into());
        let part = self.slice_step(axis, &start, &end, step).shape();
        let updates = updates.into_variable(self).broadcast_to(part);
        let positions = self.positions(self.size(axis));
        let positions = positions.slice_step(0, start, end, step);
        let set = self.move_axis(axis, 0);
        let set = set.set_at(positions, updates.move_axis(axis, 0));
        set.move_axis(0, axis)
    }

    #[track_caller]
    fn scattered(&self, indices: &Var, updates: &Var, combine: Combine) -> Var {
        let indices = indices.unsqueeze(-1);
        self.record_with(&[&indices, updates], |builder, x, others| match others {
            [indices, updates] => builder.scatter_nd(x, *indices, *updates, combine),
            _ => unreachable!("two other operands were given"),
        })
    }

    #[track_caller]
    fn scattered_elements(&self, indices: &Var, updates: &Var, axis: i64, combine: Combine) -> Var {
        self.record_with(&[indices, updates], |builder, x, others| {
            let axis = builder.axis(x, axis)?;
            match others {
                [indices, updates] => {
                    builder.scatter_elements(x, *indices, *updates, axis, combine)
                }
                _ => unreachable!("two other operands were given"),
            }
        })
    }
}
