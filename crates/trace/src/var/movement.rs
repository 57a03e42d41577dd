//! Data movement, without computation.

use super::Var;
use crate::size::Size;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

impl Var {
    /// Swaps the last two axes.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self) -> Var {
        self.record(|builder, x| {
            let rank = builder.rank(x)?;
            let mut permutation: Vec<usize> = (0..rank).collect();
            // With fewer than two axes, axis -2 does not exist here or in builders.
            let (last, other) = (builder.axis(x, -1)?, builder.axis(x, -2)?);
            permutation.swap(last, other);
            builder.transpose(x, &permutation)
        })
    }

    /// The axes in a different order: axis `i` of the result is axis `axes[i]` of this.
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: &[i64]) -> Var {
        self.record(|builder, x| {
            let axes = axes.iter().map(|&axis| builder.axis(x, axis));
            let permutation = axes.collect::<Result<Vec<_>, _>>()?;
            builder.transpose(x, &permutation)
        })
    }

    /// The same elements in row-major order with other sizes; one of them may be [`Size::INFER`].
    #[must_use]
    #[track_caller]
    pub fn reshape<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        let mut dims = Vec::new();
        for size in sizes {
            match size.into().in_reshape(&self.recorder) {
                Some(dim) => dims.push(dim),
                None => return Var::new(&self.recorder, None),
            }
        }
        self.record(|builder, x| builder.reshape_inferring(x, &dims))
    }

    /// Broadcasts to these sizes, along axes of size 1 and new outer axes.
    #[must_use]
    #[track_caller]
    pub fn broadcast_to<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        match self.dims(sizes) {
            Some(dims) => self.record(|builder, x| builder.broadcast_to(x, &dims)),
            None => Var::new(&self.recorder, None),
        }
    }

    /// The elements `start..end` along an axis.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, axis: i64, start: impl Into<Size>, end: impl Into<Size>) -> Var {
        let Some([start, end]) = self
            .dims([start.into(), end.into()])
            .and_then(|dims| <[DimId; 2]>::try_from(dims).ok())
        else {
            return Var::new(&self.recorder, None);
        };
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.slice_range(x, axis, start, end, 1)
        })
    }

    /// Removes axes of size 1.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, axes: &[i64]) -> Var {
        self.record(|builder, x| {
            let axes = axes.iter().map(|&axis| builder.axis(x, axis));
            let axes = axes.collect::<Result<Vec<_>, _>>()?;
            builder.squeeze(x, &axes)
        })
    }

    /// Adds an axis of size 1 before `axis`.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, axis: i64) -> Var {
        self.record(|builder, x| {
            let axis = builder.axis_of_rank(axis, builder.rank(x)? + 1)?;
            builder.unsqueeze(x, &[axis])
        })
    }

    /// Concatenates this and others along an axis.
    #[must_use]
    #[track_caller]
    pub fn concat(&self, others: &[&Var], axis: i64) -> Var {
        self.record_with(others, |builder, x, others| {
            let axis = builder.axis(x, axis)?;
            builder.concat(&[&[x], others].concat(), axis)
        })
    }

    /// Gathers elements by their positions along an axis: `indices` has the variable's rank.
    #[must_use]
    #[track_caller]
    pub fn gather_elements(&self, indices: impl AsRef<Var>, axis: i64) -> Var {
        self.record_with(&[indices.as_ref()], |builder, x, others| {
            let axis = builder.axis(x, axis)?;
            builder.gather_elements(x, others[0], axis)
        })
    }

    /// Gathers slices along an axis at the given indices.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, indices: impl AsRef<Var>, axis: i64) -> Var {
        self.record_with(&[indices.as_ref()], |builder, x, others| {
            let axis = builder.axis(x, axis)?;
            match others {
                [indices] => builder.gather(x, *indices, axis),
                _ => unreachable!("one other operand was given"),
            }
        })
    }

    /// Replaces the part that begins at `at` along an axis by `update`: `at` is a vector of one integer, and the sizes
    /// of the other axes must be equal. A part out of bounds is a fault of the call.
    #[must_use]
    #[track_caller]
    pub fn update_slice(&self, at: impl AsRef<Var>, update: impl AsRef<Var>, axis: i64) -> Var {
        self.record_with(&[at.as_ref(), update.as_ref()], |builder, x, others| {
            let axis = builder.axis(x, axis)?;
            match others {
                [at, update] => builder.update_slice(x, *at, *update, &[axis]),
                _ => unreachable!("two other operands were given"),
            }
        })
    }

    /// The positions `0..size`, `i64[size]`, in the recording of this variable.
    #[must_use]
    #[track_caller]
    pub fn positions(&self, size: impl Into<Size>) -> Var {
        match self.dims([size.into()]) {
            Some(dims) => self.record(|builder, _| builder.iota(DType::I64, &dims, 0)),
            None => Var::new(&self.recorder, None),
        }
    }

    #[track_caller]
    pub(super) fn dims<S: Into<Size>>(
        &self,
        sizes: impl IntoIterator<Item = S>,
    ) -> Option<Vec<DimId>> {
        let mut dims = Vec::new();
        for size in sizes {
            dims.push(size.into().dim(&self.recorder)?);
        }
        Some(dims)
    }
}
