//! Regression losses: the mean of a function of each difference.

use kiln::Var;

/// The mean of `(x - y)^2` over all elements.
#[must_use]
#[track_caller]
pub fn mean_squared_error(x: &Var, y: &Var) -> Var {
    (x - y).square().mean(..)
}

/// The mean of `|x - y|` over all elements: the L1 loss.
#[must_use]
#[track_caller]
pub fn mean_absolute_error(x: &Var, y: &Var) -> Var {
    (x - y).abs().mean(..)
}

/// The mean over all elements of `e^2 / 2` where `e = |x - y|` is at most `delta`, and of `delta (e - delta / 2)` beyond: Huber
/// (1964).
#[must_use]
#[track_caller]
pub fn huber(x: &Var, y: &Var, delta: f64) -> Var {
    let distance = (x - y).abs();
    let capped = distance.minimum(delta);
    // Both cases are `c (e - c / 2)` with `c = min(e, delta)`.
    (&capped * (distance - &capped * 0.5)).mean(..)
}
