//! Copies with some elements replaced: what `x[i] = y` and `x[i] += y` are elsewhere.

use super::Var;
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

    /// This with the maximum of slices along the first axis and others, as [`set_at`](Self::set_at).
    #[must_use]
    #[track_caller]
    pub fn max_at(&self, indices: impl AsRef<Var>, updates: impl AsRef<Var>) -> Var {
        self.scattered(indices.as_ref(), updates.as_ref(), Combine::Max)
    }

    #[track_caller]
    fn scattered(&self, indices: &Var, updates: &Var, combine: Combine) -> Var {
        let indices = indices.unsqueeze(-1);
        self.record_with(&[&indices, updates], |builder, x, others| match others {
            [indices, updates] => builder.scatter_nd(x, *indices, *updates, combine),
            _ => unreachable!("two other operands were given"),
        })
    }
}
