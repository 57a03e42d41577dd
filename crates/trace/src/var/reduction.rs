//! Reductions over axes, and functions based on them.

use super::Var;
use kiln_ir::ReduceFunction;
use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError};
use std::ops::RangeFull;

/// Axes of a variable: one, several, or all (`..`).
pub trait Axes {
    /// The axes as given, which may count from the end; `None` is all.
    fn into_axes(self) -> Option<Vec<i64>>;
}

impl Axes for i64 {
    fn into_axes(self) -> Option<Vec<i64>> {
        Some(vec![self])
    }
}

impl<const N: usize> Axes for [i64; N] {
    fn into_axes(self) -> Option<Vec<i64>> {
        Some(self.into())
    }
}

impl Axes for &[i64] {
    fn into_axes(self) -> Option<Vec<i64>> {
        Some(self.to_vec())
    }
}

impl Axes for RangeFull {
    fn into_axes(self) -> Option<Vec<i64>> {
        None
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $method:ident $keeping:ident $function:ident;)*) => {
        impl Var {$(
            $(#[$doc])*
            /// Removes the axes from the result.
            #[must_use]
            #[track_caller]
            pub fn $method(&self, axes: impl Axes) -> Var {
                self.reduce(ReduceFunction::$function, axes.into_axes(), false)
            }

            $(#[$doc])*
            /// Keeps the axes, with size 1.
            #[must_use]
            #[track_caller]
            pub fn $keeping(&self, axes: impl Axes) -> Var {
                self.reduce(ReduceFunction::$function, axes.into_axes(), true)
            }
        )*}
    };
}

reductions! {
    /// The sum over axes.
    sum sum_keep Sum;
    /// The mean over axes.
    mean mean_keep Mean;
    /// The product over axes.
    product product_keep Product;
    /// The maximum over axes.
    max max_keep Max;
    /// The minimum over axes.
    min min_keep Min;
    /// Whether any truth value over axes is true.
    any any_keep Any;
    /// Whether all truth values over axes are true.
    all all_keep All;
}

impl Var {
    /// `exp(x) / sum(exp(x))` along an axis.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> Var {
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.softmax(x, axis)
        })
    }

    /// The logarithm of [`softmax`](Self::softmax).
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> Var {
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.log_softmax(x, axis)
        })
    }

    #[track_caller]
    pub(super) fn reduce(
        &self,
        function: ReduceFunction,
        axes: Option<Vec<i64>>,
        keep_dims: bool,
    ) -> Var {
        self.record(|builder, x| {
            let axes = axes_of(builder, x, axes)?;
            builder.reduce(x, function, &axes, keep_dims)
        })
    }
}

/// Axes counted from the start.
pub(super) fn axes_of(
    builder: &GraphBuilder,
    x: ValueId,
    axes: Option<Vec<i64>>,
) -> Result<Vec<usize>, InferError> {
    match axes {
        None => Ok((0..builder.rank(x)?).collect()),
        Some(axes) => axes.iter().map(|&axis| builder.axis(x, axis)).collect(),
    }
}
