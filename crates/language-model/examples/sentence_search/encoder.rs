//! A sentence encoder: tokens in, a vector of length 1 for each sentence out.

use kiln::{Model, Options, Tensor};
use std::error::Error;
use std::path::Path;
use tokenizers::Tokenizer;

/// Sentences of a batch, at most.
const BATCH: usize = 16;

/// The model, and the tokens that it was trained with.
pub(crate) struct Encoder {
    model: Model,
    tokenizer: Tokenizer,
}

impl Encoder {
    /// Loads `model.onnx` and `tokenizer.json`.
    pub(crate) fn load(folder: &Path, options: &Options) -> Result<Self, Box<dyn Error>> {
        let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"));
        let mut tokenizer = tokenizer.map_err(|error| error.to_string())?;
        // A batch is as long as its longest sentence, and no longer.
        tokenizer.with_padding(None);
        Ok(Self {
            model: options.clone().load(folder.join("model.onnx"))?,
            tokenizer,
        })
    }

    /// How many kernels calls needed so far.
    pub(crate) fn n_kernels(&self) -> u64 {
        self.model.compilation_stats().unique_kernels
    }

    /// The vectors of sentences, `f32[sentences, 384]`.
    pub(crate) fn vectors(&self, sentences: &[&str]) -> Result<Tensor, Box<dyn Error>> {
        let encoded = self.tokenizer.encode_batch(sentences.to_vec(), true);
        let encoded = encoded.map_err(|error| error.to_string())?;
        let ids: Vec<Vec<i64>> = encoded
            .iter()
            .map(|encoding| encoding.get_ids().iter().map(|&id| id.into()).collect())
            .collect();
        let mut by_length: Vec<usize> = (0..ids.len()).collect();
        by_length.sort_by_key(|&sentence| ids[sentence].len());
        let mut rows: Vec<Option<Tensor>> = vec![None; ids.len()];
        for batch in by_length.chunks(BATCH) {
            let tokens: Vec<&[i64]> = batch.iter().map(|&sentence| &*ids[sentence]).collect();
            let vectors = self.batch(&tokens)?;
            for (row, &sentence) in batch.iter().enumerate() {
                rows[sentence] = Some(vectors.narrow(0, row, 1)?);
            }
        }
        let rows: Vec<&Tensor> = rows.iter().flatten().collect();
        Ok(Tensor::concat(&rows, 0)?)
    }

    /// One call of the model: sentences padded to the longest, with a mask.
    fn batch(&self, tokens: &[&[i64]]) -> Result<Tensor, Box<dyn Error>> {
        let longest = tokens.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let padded = |of_token: &dyn Fn(i64) -> i64| {
            let rows = tokens.iter().flat_map(|tokens| {
                let filled = tokens.iter().map(|&token| of_token(token));
                filled.chain(std::iter::repeat_n(0, longest - tokens.len()))
            });
            Tensor::from_vec(&[tokens.len(), longest], rows.collect::<Vec<i64>>())
        };
        let mut inputs = Vec::new();
        for input in self.model.inputs() {
            let tensor = match input.name() {
                name if name.contains("mask") => padded(&|_| 1)?,
                name if name.contains("type") => padded(&|_| 0)?,
                _ => padded(&|token| token)?,
            };
            inputs.push((input.name().to_owned(), tensor));
        }
        let outputs = self.model.run(&inputs)?;
        unit(&outputs[0])
    }
}

/// Rows of length 1.
fn unit(vectors: &Tensor) -> Result<Tensor, Box<dyn Error>> {
    let width = vectors.shape().last().copied().unwrap_or(1).max(1);
    let mut elements = vectors.to_vec::<f32>()?;
    for row in elements.chunks_mut(width) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
        row.iter_mut().for_each(|x| *x /= length);
    }
    Ok(Tensor::from_vec(vectors.shape(), elements)?)
}
