//! Generation: the loop over a decoder and a sampler.

use super::decoder::Decoder;
use super::sampler::Sampler;
use super::sampling::Sampling;
use crate::error::Error;
use std::ops::ControlFlow;

/// The options of generation: the maximum number of tokens, how they are chosen, and which tokens end the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    max_tokens: usize,
    sampling: Sampling,
    stop: Vec<i64>,
}

impl Generation {
    /// Greedy generation of at most `max_tokens` tokens: each is the most likely one.
    pub fn new(max_tokens: usize) -> Self {
        Self {
            max_tokens,
            sampling: Sampling::greedy(),
            stop: Vec::new(),
        }
    }

    /// How tokens are chosen.
    #[must_use]
    pub fn sampling(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// A token that ends the text, and is not part of it. May be called several times.
    #[must_use]
    pub fn stop(mut self, token: i64) -> Self {
        self.stop.push(token);
        self
    }
}

impl Decoder {
    /// Continues the conversation with `prompt`, then with tokens that the model generates, and returns the latter.
    /// `each` is called with every token as soon as it is chosen, and may end the text there. Later calls continue from
    /// here: the last token returned is then fed first.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn generate(
        &mut self,
        prompt: &[i64],
        generation: &Generation,
        mut each: impl FnMut(i64) -> ControlFlow<()>,
    ) -> Result<Vec<i64>, Error> {
        let mut sampler = Sampler::new(generation.sampling, self.session().model().options())?;
        let mut tokens = Vec::new();
        if generation.max_tokens == 0 {
            return Ok(tokens);
        }
        let mut logits = self.feed(prompt)?;
        loop {
            let token = match sampler.sample(&logits)?.first() {
                Some(&token) if !generation.stop.contains(&token) => token,
                _ => return Ok(tokens),
            };
            tokens.push(token);
            if each(token).is_break() || tokens.len() == generation.max_tokens {
                self.owe(token);
                return Ok(tokens);
            }
            logits = self.feed(&[token])?;
        }
    }
}
