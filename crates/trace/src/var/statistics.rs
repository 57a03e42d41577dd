//! Functions that combine several reductions: variances, norms, counts.

use super::{Axes, Var};
use kiln_ir::ReduceFunction;
use kiln_tensor::DType;

impl Var {
    /// The mean of the squared distances from the mean over axes, which are removed.
    #[must_use]
    #[track_caller]
    pub fn variance(&self, axes: impl Axes) -> Var {
        let axes = axes.into_axes();
        let mean = self.reduce(ReduceFunction::Mean, axes.clone(), true);
        (self - mean)
            .square()
            .reduce(ReduceFunction::Mean, axes, false)
    }

    /// The standard deviation over axes: the square root of the [`variance`](Self::variance).
    #[must_use]
    #[track_caller]
    pub fn std(&self, axes: impl Axes) -> Var {
        self.variance(axes).sqrt()
    }

    /// The Euclidean norm over axes, which are removed.
    #[must_use]
    #[track_caller]
    pub fn norm(&self, axes: impl Axes) -> Var {
        self.square().sum(axes).sqrt()
    }

    /// The logarithm of the sum of exponentials over axes, which are removed; computed without intermediate overflow.
    #[must_use]
    #[track_caller]
    pub fn log_sum_exp(&self, axes: impl Axes) -> Var {
        let axes = axes.into_axes();
        let most = self.reduce(ReduceFunction::Max, axes.clone(), true);
        // Where all are -inf, or one is +inf, the difference would be NaN.
        let most = most.is_finite().select(&most, most.scalar(0.0));
        let most = most.stop_gradient();
        let sum = (self - &most)
            .exp()
            .reduce(ReduceFunction::Sum, axes.clone(), false);
        sum.log() + most.reduce(ReduceFunction::Max, axes, false)
    }

    /// The number of nonzero elements over axes, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl Axes) -> Var {
        let counted = match self.dtype() {
            Some(DType::Bool) => self.clone(),
            _ => self.not_equal(0),
        };
        counted.cast(DType::I64).sum(axes)
    }
}
