//! Rearrangement of elements: slices of an axis, repetition, padding, exchanged axes.

use super::reduction::axes_of;
use super::{Axes, Operand, Var};
use crate::size::Size;
use kiln_ir::PadMode;
use kiln_symbolic_shape::DimId;

impl Var {
    /// The slice at a position along an axis, which is removed: `x.index(0, 2)` is `x[2]`. A negative number counts
    /// from the end. A position out of bounds is a fault of the call.
    #[must_use]
    #[track_caller]
    pub fn index(&self, axis: i64, at: impl Into<Size>) -> Var {
        let at = at.into();
        let at = match at.known() {
            Some(number) if number < 0 => self.size(axis) + number,
            _ => at,
        };
        let Some(at) = at.dim(&self.recorder) else {
            return Var::new(&self.recorder, None);
        };
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            let one = builder.size(1);
            let slice = builder.slice_axis(x, axis, at, one)?;
            builder.squeeze(slice, &[axis])
        })
    }

    /// The elements `start..end` along an axis, `step` apart, as Python's `start:end:step`: negative positions count
    /// from the end, and positions out of bounds are clamped. A negative step goes backwards, from `start` to after
    /// `end`.
    #[must_use]
    #[track_caller]
    pub fn slice_step(
        &self,
        axis: i64,
        start: impl Into<Size>,
        end: impl Into<Size>,
        step: i64,
    ) -> Var {
        let Some(&[start, end]) = self.dims([start.into(), end.into()]).as_deref() else {
            return Var::new(&self.recorder, None);
        };
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.slice_range(x, axis, start, end, step)
        })
    }

    /// Reverses the order of elements along axes.
    #[must_use]
    #[track_caller]
    pub fn flip(&self, axes: impl Axes) -> Var {
        let axes = axes.into_axes();
        self.record(|builder, x| {
            let axes = axes_of(builder, x, axes)?;
            axes.into_iter()
                .try_fold(x, |x, axis| builder.reverse(x, axis))
        })
    }

    /// Rotates the elements by `shift` along an axis, wrapping around at the end; a negative shift rotates the other
    /// way.
    #[must_use]
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: i64) -> Var {
        let size = self.size(axis);
        let positions = self.positions(&size) - shift;
        self.gather(positions.remainder(size), axis)
    }

    /// Stacks this variable and others of the same shape along a new axis.
    #[must_use]
    #[track_caller]
    pub fn stack(&self, others: &[&Var], axis: i64) -> Var {
        self.record_with(others, |builder, x, others| {
            let axis = builder.axis_of_rank(axis, builder.rank(x)? + 1)?;
            builder.stack(&[&[x], others].concat(), axis)
        })
    }

    /// Tiles the whole tensor along each axis, the given number of times.
    #[must_use]
    #[track_caller]
    pub fn tile<S: Into<Size>>(&self, counts: impl IntoIterator<Item = S>) -> Var {
        match self.dims(counts) {
            Some(counts) => self.record(|builder, x| builder.tile(x, &counts)),
            None => Var::new(&self.recorder, None),
        }
    }

    /// Repeats each slice along an axis a number of times, one copy directly after the other.
    #[must_use]
    #[track_caller]
    pub fn repeat_each(&self, count: impl Into<Size>, axis: i64) -> Var {
        let Some(&[count]) = self.dims([count.into()]).as_deref() else {
            return Var::new(&self.recorder, None);
        };
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            let sizes = builder.shape(x)?;
            let wide = builder.unsqueeze(x, &[axis + 1])?;
            let mut repeated: Vec<DimId> = sizes.to_vec();
            repeated.insert(axis + 1, count);
            let wide = builder.broadcast_to(wide, &repeated)?;
            // The two axes are merged into one, whose size is inferred.
            let mut merged: Vec<Option<DimId>> = sizes.iter().copied().map(Some).collect();
            merged[axis] = None;
            builder.reshape_inferring(wide, &merged)
        })
    }

    /// Flattens to one axis, in row-major order.
    #[must_use]
    #[track_caller]
    pub fn flatten(&self) -> Var {
        self.reshape([Size::INFER])
    }

    /// Swaps two axes.
    #[must_use]
    #[track_caller]
    pub fn swap_axes(&self, a: i64, b: i64) -> Var {
        self.record(|builder, x| {
            let (a, b) = (builder.axis(x, a)?, builder.axis(x, b)?);
            let mut permutation: Vec<usize> = (0..builder.rank(x)?).collect();
            permutation.swap(a, b);
            builder.transpose(x, &permutation)
        })
    }

    /// Moves an axis to a different position; the others keep their order.
    #[must_use]
    #[track_caller]
    pub fn move_axis(&self, from: i64, to: i64) -> Var {
        self.record(|builder, x| {
            let (from, to) = (builder.axis(x, from)?, builder.axis(x, to)?);
            let mut permutation: Vec<usize> = (0..builder.rank(x)?).collect();
            let moved = permutation.remove(from);
            permutation.insert(to, moved);
            builder.transpose(x, &permutation)
        })
    }

    /// Splits along an axis into a number of equal parts; the number must divide the size.
    #[must_use]
    #[track_caller]
    pub fn split(&self, parts: usize, axis: i64) -> Vec<Var> {
        let part = self.size(axis) / parts.max(1);
        let Some(&[part]) = self.dims([part]).as_deref() else {
            return vec![Var::new(&self.recorder, None); parts];
        };
        let found = self.value.and_then(|x| {
            self.recorder.record(|builder| {
                let axis = builder.axis(x, axis)?;
                builder.split(x, axis, &vec![part; parts])
            })
        });
        match found {
            Some(values) => {
                let values = values.into_iter().map(Some);
                values
                    .map(|value| Var::new(&self.recorder, value))
                    .collect()
            }
            None => vec![Var::new(&self.recorder, None); parts],
        }
    }

    /// The differences of adjacent elements along an axis.
    #[must_use]
    #[track_caller]
    pub fn diff(&self, axis: i64) -> Var {
        let size = self.size(axis);
        self.slice(axis, 1, &size) - self.slice(axis, 0, size - 1)
    }

    /// Pads with a number: the elements before and after, for each axis.
    #[must_use]
    #[track_caller]
    pub fn pad<S: Into<Size>>(
        &self,
        widths: impl IntoIterator<Item = (S, S)>,
        number: impl Operand,
    ) -> Var {
        let number = number.into_variable(self);
        self.padded(widths, &number, PadMode::Constant)
    }

    /// Pads with copies of the edge elements.
    #[must_use]
    #[track_caller]
    pub fn pad_edge<S: Into<Size>>(&self, widths: impl IntoIterator<Item = (S, S)>) -> Var {
        self.padded(widths, &0_i64.into_variable(self), PadMode::Edge)
    }

    /// Pads by reflection at the edge elements, which are not repeated.
    #[must_use]
    #[track_caller]
    pub fn pad_reflect<S: Into<Size>>(&self, widths: impl IntoIterator<Item = (S, S)>) -> Var {
        self.padded(widths, &0_i64.into_variable(self), PadMode::Reflect)
    }

    /// Pads by wrapping around to the other end.
    #[must_use]
    #[track_caller]
    pub fn pad_wrap<S: Into<Size>>(&self, widths: impl IntoIterator<Item = (S, S)>) -> Var {
        self.padded(widths, &0_i64.into_variable(self), PadMode::Wrap)
    }

    #[track_caller]
    fn padded<S: Into<Size>>(
        &self,
        widths: impl IntoIterator<Item = (S, S)>,
        number: &Var,
        mode: PadMode,
    ) -> Var {
        let (low, high): (Vec<S>, Vec<S>) = widths.into_iter().unzip();
        let (Some(low), Some(high)) = (self.dims(low), self.dims(high)) else {
            return Var::new(&self.recorder, None);
        };
        self.record_with(&[number], |builder, x, others| match others {
            [number] => builder.pad(x, *number, &low, &high, mode),
            _ => unreachable!("one other operand was given"),
        })
    }
}
