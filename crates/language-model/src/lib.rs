//! Language models with random weights and the architectures of well-known models, as graphs, for the text-generation
//! example, tests and benchmarks.
//!
//! Inputs and outputs have the names that `kiln::decode` recognises.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    reason = "tensors of sizes written in this package fit into memory, or nothing does"
)]

pub mod gpt2;
pub mod llama;

use kiln::internals::ir::Graph;
use kiln::{DType, Recording, Tensor, TraceError, Var};

/// Draws weights: small numbers whose sums stay near one.
struct Weights(u64);

impl Default for Weights {
    fn default() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl Weights {
    fn matrix(&mut self, recording: &Recording, rows: usize, columns: usize) -> Var {
        let scale = (3.0 / rows as f32).sqrt();
        let mut tensor = Tensor::full(&[rows, columns], 0.0_f32).expect("memory");
        for element in tensor.as_mut_slice::<f32>().expect("it is not shared") {
            // Xorshift (Marsaglia, 2003).
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            *element = ((self.0 >> 40) as f32 / (1_u32 << 23) as f32 - 1.0) * scale;
        }
        recording.constant(&tensor)
    }
}

/// The name of a cache.
pub fn cache(layer: usize, part: &str) -> String {
    format!("cache.{layer}.{part}")
}

/// The mask of the entries of the caches: its size is the number of entries that are read.
fn mask(recording: &Recording) -> Var {
    recording.input("attention_mask", DType::I64, ["L".into()])
}

/// The last row.
fn last_token(recording: &Recording, x: &Var) -> Var {
    // An index below 0 counts from the end.
    let last = Tensor::from_slice(&[1], &[-1_i64]).expect("memory");
    x.gather(recording.constant(&last), 0)
}

/// The graph with its outputs named.
fn finish(
    recording: Recording,
    logits: &Var,
    caches: &[(String, Var)],
) -> Result<Graph, TraceError> {
    let named = caches
        .iter()
        .map(|(name, cache)| (format!("next.{name}"), cache));
    let named: Vec<(String, &Var)> = named.collect();
    let mut outputs = vec![("logits", logits)];
    outputs.extend(named.iter().map(|(name, cache)| (name.as_str(), *cache)));
    recording.finish(&outputs)
}
