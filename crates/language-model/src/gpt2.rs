//! A decoder with the architecture of GPT-2: learned positions, layer norms, one projection for queries, keys and
//! values, and the embedding table as the weights of the last product.

use crate::{Weights, cache, last_token};
use kiln::internals::ir::Graph;
use kiln::{AxisSize, DType, Recording, TraceError, Var};

/// The sizes of a decoder.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Elements of a token's vector.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// The number of positions.
    pub positions: usize,
    /// The number of tokens in the vocabulary.
    pub vocabulary: usize,
}

/// The graph of a call, with the inputs and outputs of [`llama::graph`](crate::llama::graph).
///
/// # Errors
/// When sizes do not fit each other.
pub fn graph(shape: &Shape, capacity: AxisSize) -> Result<Graph, TraceError> {
    let recording = Recording::new("gpt2");
    let mut weights = Weights::default();
    let tokens = recording.input("tokens", DType::I64, ["T".into()]);
    let at = recording.input("at", DType::I64, [1.into()]);
    let mask = crate::mask(&recording);
    let table = weights.matrix(&recording, shape.vocabulary, shape.width);
    let places = weights.matrix(&recording, shape.positions, shape.width);
    let positions = tokens.positions(tokens.size(0)) + &at;
    let mut x = table.gather(&tokens, 0) + places.gather(&positions, 0);
    let each = shape.width / shape.heads;
    let mut caches: Vec<(String, Var)> = Vec::new();
    for layer in 0..shape.layers {
        let sizes = [shape.heads.into(), capacity.clone(), each.into()];
        let input = |part| recording.input(&cache(layer, part), DType::F32, sizes.clone());
        let (keys, values) = (input("keys"), input("values"));
        let mixed = layer_norm(&x).matmul(weights.matrix(&recording, shape.width, 3 * shape.width));
        let part = |index: usize| {
            let part = mixed.slice(1, index * shape.width, (index + 1) * shape.width);
            let split = part.reshape([tokens.size(0), shape.heads.into(), each.into()]);
            split.permute(&[1, 0, 2])
        };
        let keys = keys.update_slice(&at, part(1), 1);
        let values = values.update_slice(&at, part(2), 1);
        let [seen, mixed] = [&keys, &values].map(|cache| cache.slice(1, 0, mask.size(0)));
        let scores = part(0).matmul(seen.transpose()) * (each as f64).sqrt().recip();
        let is_later = positions.unsqueeze(1).less(seen.positions(seen.size(1)));
        let scores = is_later.select(scores.scalar(f64::NEG_INFINITY), &scores);
        let heads = scores.softmax(-1).matmul(&mixed).permute(&[1, 0, 2]);
        let heads = heads.reshape([tokens.size(0), shape.width.into()]);
        x += heads.matmul(weights.matrix(&recording, shape.width, shape.width));
        let mut dense =
            |x: &Var, rows, columns| x.matmul(weights.matrix(&recording, rows, columns));
        let hidden = dense(&layer_norm(&x), shape.width, 4 * shape.width).map("gelu_tanh");
        x += dense(&hidden, 4 * shape.width, shape.width);
        caches.push((cache(layer, "keys"), keys));
        caches.push((cache(layer, "values"), values));
    }
    let logits = layer_norm(&last_token(&recording, &x)).matmul(table.transpose());
    crate::finish(recording, &logits, &caches)
}

fn layer_norm(x: &Var) -> Var {
    let centred = x - x.mean_keep(-1);
    &centred * (centred.square().mean_keep(-1) + 1e-5).rsqrt()
}
