//! Losses: scalars, each the mean over a batch.
//!
//! | targets | use |
//! |---|---|
//! | numbers | [`mean_squared_error`], [`mean_absolute_error`], [`huber`] |
//! | one of several classes | [`cross_entropy`], [`CrossEntropy`] with options, [`negative_log_likelihood`] |
//! | yes or no | [`binary_cross_entropy`] |
//! | a distribution | [`kl_divergence`] |
//! | only some positions | [`masked_mean`] of the loss at each position |

mod cross_entropy;
mod regression;

pub use cross_entropy::{CrossEntropy, cross_entropy, negative_log_likelihood};
pub use regression::{huber, mean_absolute_error, mean_squared_error};

use kiln::{DType, Var};

/// The mean of `-y log p - (1 - y) log(1 - p)` with `p = sigmoid(logits)`, computed without overflow: `max(x, 0) - x y +
/// log(1 + exp(-|x|))`.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy(logits: &Var, y: &Var) -> Var {
    let tail = (-logits.abs()).exp().map("log1p");
    (logits.relu() - logits * y + tail).mean(..)
}

/// The Kullback-Leibler divergence of distributions `p: [.., classes]` from distributions `q` whose logarithms are
/// given: the sum of `p (log p - log q)` over the classes, which is 0 where `p` is, and its mean over all other axes.
#[must_use]
#[track_caller]
pub fn kl_divergence(log_q: &Var, p: &Var) -> Var {
    let is_possible = p.greater(0.0);
    let log_p = is_possible.select(p, p.scalar(1.0)).log();
    let terms = is_possible.select(p * (log_p - log_q), p.scalar(0.0));
    terms.sum(-1).mean(..)
}

/// The mean of the elements of `x` where `mask: bool` of the same sizes is true; 0 if it is true nowhere. The other
/// elements may have any value, even infinite, and their gradients are zero.
#[must_use]
#[track_caller]
pub fn masked_mean(x: &Var, mask: &Var) -> Var {
    let sum = mask.select(x, x.scalar(0.0)).sum(..);
    let count = mask.cast(DType::I64).sum(..).maximum(1_i64);
    match x.dtype() {
        Some(dtype) => sum / count.cast(dtype),
        // After a mistake nothing more is recorded.
        None => sum,
    }
}
