//! The graph that chooses tokens.
//!
//! A token is drawn by the Gumbel-max method (Gumbel, 1954): the largest of the log-probabilities after adding
//! independent Gumbel noise to each. It needs no sum of probabilities, so the result does not depend on how such a sum
//! is rounded. The noise comes from random bits determined by a key, so a draw can be repeated.

use super::sampling::Sampling;
use crate::error::Error;
use kiln_ir::{CumulateFunction, Dims, Extremum, Graph, Op, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_tensor::DType;

/// `logits: f32[B, V]`, and unless greedy `temperature: f32[]`, `top_p: f32[]` and `key: u64[2]`, to `tokens: i64[B]`.
pub(super) fn graph(sampling: &Sampling) -> Result<Graph, Error> {
    let mut b = GraphBuilder::new("sample");
    let (rows, vocabulary) = (b.symbol("B")?, b.symbol("V")?);
    let logits = b.input("logits", DType::F32, &[rows, vocabulary]);
    let tokens = match sampling.is_greedy() {
        true => b.arg_reduce(logits, Extremum::Max, 1, false)?,
        false => drawn(&mut b, sampling, logits)?,
    };
    Ok(b.finish(&[("tokens", tokens)])?)
}

fn drawn(b: &mut GraphBuilder, sampling: &Sampling, logits: ValueId) -> Result<ValueId, Error> {
    let temperature = b.input("temperature", DType::F32, &[]);
    let top_p = b.input("top_p", DType::F32, &[]);
    let two = b.size(2);
    let key = b.input("key", DType::U64, &[two]);
    let vocabulary = b.shape(logits)?[1];
    // The scores in descending order, and their tokens.
    let (kept, numbers) = match (sampling.top_k, sampling.is_nucleus()) {
        (None, false) => (logits, None),
        (k, _) => {
            let k = match k.and_then(|k| i64::try_from(k).ok()) {
                Some(k) => {
                    let k = b.size(k);
                    b.dims_mut().min(k, vocabulary)?
                }
                None => vocabulary,
            };
            let (kept, numbers) = b.top_k(logits, k, 1, Extremum::Max)?;
            (kept, Some(numbers))
        }
    };
    let mut scores = b.div(kept, temperature)?;
    if sampling.is_nucleus() {
        scores = nucleus(b, scores, top_p)?;
    }
    let noise = gumbel(b, scores, key)?;
    let noisy = b.add(scores, noise)?;
    let place = b.arg_reduce(noisy, Extremum::Max, 1, true)?;
    let token = match numbers {
        Some(numbers) => b.gather_elements(numbers, place, 1)?,
        None => place,
    };
    Ok(b.squeeze(token, &[1])?)
}

/// Scores in descending order; those after a cumulative probability of `top_p` are set to minus infinity.
fn nucleus(b: &mut GraphBuilder, scores: ValueId, top_p: ValueId) -> Result<ValueId, InferError> {
    let probabilities = b.softmax(scores, 1)?;
    let sum = Op::Cumulate {
        function: CumulateFunction::Sum,
        axis: 1,
        exclusive: true,
        reverse: false,
    };
    let before = b.op1(sum, &[probabilities])?;
    let is_behind = b.map("ge", &[before, top_p])?;
    // The first is kept for any `top_p`.
    let dims = b.shape(scores)?;
    let place = b.iota(DType::I64, &dims, 1)?;
    let zero = b.scalar(DType::I64, 0.0)?;
    let is_later = b.map("gt", &[place, zero])?;
    let is_cut = b.map("and", &[is_behind, is_later])?;
    let never = b.scalar(DType::F32, f64::NEG_INFINITY)?;
    b.map("select", &[is_cut, never, scores])
}

/// Noise of the standard Gumbel distribution, like `scores`: minus the logarithm of an exponentially distributed number.
fn gumbel(b: &mut GraphBuilder, scores: ValueId, key: ValueId) -> Result<ValueId, InferError> {
    let dims: Dims = b.shape(scores)?;
    let bits = b.op1(Op::RandomBits { dims }, &[key])?;
    let number = b.cast(bits, DType::F32)?;
    let half = b.scalar(DType::F32, 0.5)?;
    let number = b.add(number, half)?;
    let unit = b.scalar(DType::F32, -(2_f64.powi(-32)))?;
    let below = b.mul(number, unit)?;
    let rate = b.map("log1p", &[below])?;
    let exponential = b.neg(rate)?;
    let log = b.log(exponential)?;
    b.neg(log)
}
