//! Options for choosing a token from logits.

/// How a token is chosen from logits.
///
/// Logits are divided by the temperature; then the `k` most likely tokens are kept, and of these the fewest whose
/// probabilities sum to at least `top_p`; one of the remaining tokens is drawn, in proportion to its probability.
///
/// ```
/// use kiln::decode::Sampling;
///
/// let sampling = Sampling::new().temperature(0.8).top_k(40).top_p(0.95).seed(7);
/// assert_ne!(sampling, Sampling::greedy());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    pub(super) temperature: f32,
    pub(super) top_k: Option<usize>,
    pub(super) top_p: f32,
    pub(super) seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self::new()
    }
}

impl Sampling {
    /// Every token with its probability: temperature 1, nothing cut off, seed 0.
    pub fn new() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            seed: 0,
        }
    }

    /// The most likely token; the first one if there are several.
    pub fn greedy() -> Self {
        Self::new().temperature(0.0)
    }

    /// The temperature, by which logits are divided: less than 1 prefers likely tokens, more than 1 flattens the
    /// distribution. At 0 or below, or NaN, the most likely token is chosen.
    #[must_use]
    pub fn temperature(self, temperature: f32) -> Self {
        Self {
            temperature,
            ..self
        }
    }

    /// Keeps the `k` most likely tokens, at least one; of equally likely ones, those with the lower number.
    #[must_use]
    pub fn top_k(self, k: usize) -> Self {
        let top_k = Some(k.max(1));
        Self { top_k, ..self }
    }

    /// Keeps the most likely tokens whose probabilities sum to at least `p`, at least one. With `p` of 1 or more, all
    /// are kept.
    #[must_use]
    pub fn top_p(self, p: f32) -> Self {
        Self { top_p: p, ..self }
    }

    /// The seed: the same seed, options and logits give the same tokens.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    pub(super) fn is_greedy(&self) -> bool {
        // NaN is not positive.
        let is_positive = self.temperature > 0.0;
        !is_positive || self.top_k == Some(1)
    }

    /// Whether the least likely of some tokens are cut off by their probabilities.
    pub(super) fn is_nucleus(&self) -> bool {
        self.top_p < 1.0
    }
}
