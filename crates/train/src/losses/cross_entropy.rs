//! Losses for classification.

use super::masked_mean;
use kiln::Var;

/// The mean of `-log softmax(logits)[label]`: `logits: [.., classes]`, `labels: int[..]`.
#[must_use]
#[track_caller]
pub fn cross_entropy(logits: &Var, labels: &Var) -> Var {
    CrossEntropy::default().of(logits, labels)
}

/// The mean of `-log_p[label]` over all positions: `log_p: [.., classes]` are logarithms of probabilities, `labels: int[..]`.
#[must_use]
#[track_caller]
pub fn negative_log_likelihood(log_p: &Var, labels: &Var) -> Var {
    -at_labels(log_p, labels).mean(..)
}

/// The cross-entropy over classes, optionally with label smoothing or with some positions excluded.
///
/// ```
/// use kiln::{DType, Tensor};
/// use kiln_train::{Sgd, Trainer, losses::CrossEntropy};
///
/// let mut trainer = Trainer::new("tokens", Sgd::default())
///     .input("x", DType::F32, ["B".into(), "T".into(), 4.into()])
///     .input("labels", DType::I64, ["B".into(), "T".into()])
///     .build(|network, inputs| {
///         let logits = network.linear("out", &inputs[0], 4, 3);
///         CrossEntropy::default().smoothing(0.1).ignoring(-100).of(&logits, &inputs[1])
///     })?;
/// let x = Tensor::full(&[1, 2, 4], 1.0f32)?;
/// let labels = Tensor::from_slice(&[1, 2], &[2_i64, -100])?;
/// assert!(trainer.step([("x", &x), ("labels", &labels)])?.is_finite());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CrossEntropy {
    smoothing: f64,
    mask: Option<Var>,
    ignored: Option<i64>,
}

impl CrossEntropy {
    /// Takes this share of each label's probability and gives it to all classes equally: Szegedy et al. (2016).
    pub fn smoothing(self, share: f64) -> Self {
        Self {
            smoothing: share,
            ..self
        }
    }

    /// Counts only the positions where `mask: bool[..]`, of the labels' sizes, is true.
    pub fn mask(self, mask: &Var) -> Self {
        Self {
            mask: Some(mask.clone()),
            ..self
        }
    }

    /// Excludes positions with this label, which need not be a valid class.
    pub fn ignoring(self, label: i64) -> Self {
        Self {
            ignored: Some(label),
            ..self
        }
    }

    /// The mean over the positions that count, 0 if there are none: `logits: [.., classes]`, `labels: int[..]`.
    #[must_use]
    #[track_caller]
    pub fn of(self, logits: &Var, labels: &Var) -> Var {
        let known = self.ignored.map(|ignored| labels.not_equal(ignored));
        let labels = match &known {
            Some(known) => known.select(labels, labels.scalar(0.0)),
            None => labels.clone(),
        };
        let log = logits.log_softmax(-1);
        let mut loss = -at_labels(&log, &labels);
        if self.smoothing != 0.0 {
            loss = loss * (1.0 - self.smoothing) - log.mean(-1) * self.smoothing;
        }
        let counted = match (self.mask, known) {
            (Some(mask), Some(known)) => Some(mask.logical_and(known)),
            (mask, known) => mask.or(known),
        };
        match counted {
            Some(counted) => masked_mean(&loss, &counted),
            None => loss.mean(..),
        }
    }
}

/// The element of each position's class: `[.., classes]`, `int[..]` to `[..]`.
#[track_caller]
fn at_labels(x: &Var, labels: &Var) -> Var {
    x.gather_elements(labels.unsqueeze(-1), -1).squeeze(&[-1])
}
