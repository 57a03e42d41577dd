//! Chooses tokens from logits.

use super::sampling::Sampling;
use super::sampling_graph;
use crate::error::Error;
use crate::model::Model;
use crate::options::Options;
use crate::source::Source;
use kiln_tensor::Tensor;

/// Chooses tokens from logits, on the device of its options.
///
/// ```
/// use kiln::decode::{Sampler, Sampling};
/// use kiln::{Options, Tensor};
///
/// let mut sampler = Sampler::new(Sampling::greedy(), &Options::new())?;
/// let logits = Tensor::from_slice(&[2, 3], &[0.0f32, 3.0, 1.0, 5.0, 4.0, 0.0])?;
/// assert_eq!(sampler.sample(&logits)?, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    model: Model,
    /// The number of draws so far, which is part of the key.
    draws: u64,
}

impl Sampler {
    /// A sampler; its graph runs with these options, as far as they apply to any graph.
    ///
    /// # Errors
    /// As [`Options::load`].
    pub fn new(sampling: Sampling, options: &Options) -> Result<Self, Error> {
        let graph = sampling_graph::graph(&sampling)?;
        let options = options.for_another_graph();
        let model = options.load(Source::graph(graph))?;
        Ok(Self {
            sampling,
            model,
            draws: 0,
        })
    }

    /// A token per row of `logits: f32[B, V]`. Each call draws anew.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn sample(&mut self, logits: &Tensor) -> Result<Vec<i64>, Error> {
        let outputs = match self.sampling.is_greedy() {
            true => self.model.run([("logits", logits)])?,
            false => {
                let temperature = Tensor::scalar(self.sampling.temperature);
                let top_p = Tensor::scalar(self.sampling.top_p);
                let key = Tensor::from_slice(&[2], &[self.sampling.seed, self.draws])?;
                self.model.run([
                    ("logits", logits),
                    ("temperature", &temperature),
                    ("top_p", &top_p),
                    ("key", &key),
                ])?
            }
        };
        self.draws = self.draws.wrapping_add(1);
        Ok(outputs[0].to_vec::<i64>()?)
    }

    /// The graph that chooses tokens, as a model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}
