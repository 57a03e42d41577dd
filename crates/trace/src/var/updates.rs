//! Copies with some elements replaced, corresponding to `x[i] = y` and `x[i] += y` in other libraries.

use super::{Operand, Var};
use crate::size::Size;
use kiln_ir::Combine;

impl Var {
    /// This with slices along the first axis replaced: `indices: int[i..]` has their positions, `updates: [i.., rest of this]`
    /// the new ones. Of several for one position the last wins. A position outside is a fault of the call.
    #[must_use]
    #[track_caller]
    pub fn set_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Set)
    }

    /// This with something added to slices along the first axis, as [`set_at`](Self::set_at); several for one position are all
    /// added.
    #[must_use]
    #[track_caller]
    pub fn add_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Add)
    }

    /// This with slices along the first axis multiplied, as [`add_at`](Self::add_at).
    #[must_use]
    #[track_caller]
    pub fn multiply_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Mul)
    }

    /// This with the minimum of slices along the first axis and others, as [`set_at`](Self::set_at).
    #[must_use]
    #[track_caller]
    pub fn min_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Min)
    }

    /// This with the maximum of slices along the first axis and others, as [`set_at`](Self::set_at).
    #[must_use]
    #[track_caller]
    pub fn max_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Max)
    }

    /// This with elements replaced whose position along an axis is given, as [`gather_elements`](Self::gather_elements) reads
    /// them: `indices` and `updates` have one shape and this variable's rank. Of several for one position the last wins.
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

    /// This with something added to elements whose position along an axis is given, as
    /// [`set_elements`](Self::set_elements); several for one position are all added.
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

    /// This with the part that [`slice_step`](Self::slice_step) reads replaced, by what broadcasts to its shape:
    /// `x.set_slice(0, 1, 3, 1, 0)` is what `x[1:3] = 0` makes of `x`.
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
