//! Losses: scalars, the mean over the batch.

use kiln::Var;

/// The mean of `(x - y)^2` over all elements.
#[must_use]
#[track_caller]
pub fn mean_squared_error(x: &Var, y: &Var) -> Var {
    (x - y).square().mean(..)
}

/// The mean of `-log softmax(logits)[label]`: `logits: [B, classes]`, `labels: int[B]`.
#[must_use]
#[track_caller]
pub fn cross_entropy(logits: &Var, labels: &Var) -> Var {
    let log = logits.log_softmax(-1);
    let picked = log.gather_elements(labels.unsqueeze(1), 1);
    -picked.mean(..)
}

/// The mean of `-y log p - (1 - y) log(1 - p)` with `p = sigmoid(logits)`, computed without overflow: `max(x, 0) - x y +
/// log(1 + exp(-|x|))`.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy(logits: &Var, y: &Var) -> Var {
    let tail = (-logits.abs()).exp().map("log1p");
    (logits.relu() - logits * y + tail).mean(..)
}
