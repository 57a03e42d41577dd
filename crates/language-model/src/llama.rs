//! A decoder with the architecture of Llama: the computation of one call.

use crate::{Weights, cache, last_token};
use kiln::internals::ir::Graph;
use kiln::{AxisSize, DType, Recording, Tensor, TraceError, Var};

/// The sizes of a decoder.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Elements of a token's vector.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, each shared by several heads of queries.
    pub kv_heads: usize,
    /// Elements of the hidden layer of the feed-forward part.
    pub hidden: usize,
    /// The number of tokens in the vocabulary.
    pub vocabulary: usize,
}

impl Shape {
    /// Elements of a head.
    pub fn each(&self) -> usize {
        self.width / self.heads
    }

    /// The number of weights that every token reads: all except the embedding table.
    pub fn n_weights(&self) -> usize {
        let shared = self.kv_heads * self.each();
        let attention = 2 * self.width * self.width + 2 * self.width * shared;
        let feed_forward = 3 * self.width * self.hidden;
        self.layers * (attention + feed_forward) + self.width * self.vocabulary
    }

    /// Its sizes, for a capacity.
    pub fn cache_sizes(&self, capacity: usize) -> [usize; 3] {
        [self.kv_heads, capacity, self.each()]
    }
}

/// The graph of a call: `tokens: i64[T]`, the position of the first, `at: i64[1]`, `attention_mask: i64[L]`, of which
/// only the size matters, the number of cache entries that are read, and a cache of keys and one of values per layer,
/// `f32[kv_heads, capacity, each]`; to the logits of the last token, `f32[1, vocabulary]`, and the next caches.
///
/// # Errors
/// When sizes do not fit each other.
pub fn graph(shape: &Shape, capacity: AxisSize) -> Result<Graph, TraceError> {
    let recording = Recording::new("llama");
    let mut weights = Weights::default();
    let tokens = recording.input("tokens", DType::I64, ["T".into()]);
    let at = recording.input("at", DType::I64, [1.into()]);
    let mask = crate::mask(&recording);
    let table = weights.matrix(&recording, shape.vocabulary, shape.width);
    let mut x = table.gather(&tokens, 0);
    let positions = tokens.positions(tokens.size(0)) + &at;
    let angles = Angles::new(&recording, &positions, shape.each());
    let mut caches: Vec<(String, Var)> = Vec::new();
    for layer in 0..shape.layers {
        let sizes = [shape.kv_heads.into(), capacity.clone(), shape.each().into()];
        let input = |part| recording.input(&cache(layer, part), DType::F32, sizes.clone());
        let (keys, values) = (input("keys"), input("values"));
        let normal = rms_norm(&x);
        let shared = shape.kv_heads * shape.each();
        let mut project = |columns: usize, heads: usize| {
            let w = weights.matrix(&recording, shape.width, columns);
            let split =
                normal
                    .matmul(w)
                    .reshape([tokens.size(0), heads.into(), shape.each().into()]);
            // `[heads, T, each]`.
            split.permute(&[1, 0, 2])
        };
        let q = angles.rotate(&project(shape.width, shape.heads));
        let k = angles.rotate(&project(shared, shape.kv_heads));
        let v = project(shared, shape.kv_heads);
        let keys = keys.update_slice(&at, &k, 1);
        let values = values.update_slice(&at, &v, 1);
        let seen = [&keys, &values].map(|cache| cache.slice(1, 0, mask.size(0)));
        let mixed = attention(shape, &q, &seen, &positions);
        let out = weights.matrix(&recording, shape.width, shape.width);
        x += mixed.matmul(out);
        let normal = rms_norm(&x);
        let mut dense =
            |x: &Var, rows, columns| x.matmul(weights.matrix(&recording, rows, columns));
        let gate = dense(&normal, shape.width, shape.hidden).silu();
        let up = dense(&normal, shape.width, shape.hidden);
        x += dense(&(gate * up), shape.hidden, shape.width);
        caches.push((cache(layer, "keys"), keys));
        caches.push((cache(layer, "values"), values));
    }
    let last = last_token(&recording, &x);
    let head = weights.matrix(&recording, shape.width, shape.vocabulary);
    let logits = rms_norm(&last).matmul(head);
    crate::finish(recording, &logits, &caches)
}

fn rms_norm(x: &Var) -> Var {
    x * (x.square().mean_keep(-1) + 1e-5).rsqrt()
}

/// Causal attention of `q: [heads, T, each]` over these entries of the caches; positions after a token's own get no weight.
fn attention(shape: &Shape, q: &Var, [keys, values]: &[Var; 2], positions: &Var) -> Var {
    let (time, each) = (q.size(1), shape.each());
    let shared = shape.heads / shape.kv_heads;
    let q = q.reshape([
        shape.kv_heads.into(),
        shared.into(),
        time.clone(),
        each.into(),
    ]);
    let scores = q.matmul(keys.unsqueeze(1).transpose()) * (each as f64).sqrt().recip();
    let is_later = positions.unsqueeze(1).less(keys.positions(keys.size(1)));
    let scores = is_later.select(scores.scalar(f64::NEG_INFINITY), &scores);
    let mixed = scores.softmax(-1).matmul(values.unsqueeze(1));
    let heads = mixed.reshape([shape.heads.into(), time.clone(), each.into()]);
    heads
        .permute(&[1, 0, 2])
        .reshape([time, shape.width.into()])
}

/// Cosines and sines of rotary embeddings (Su et al., "RoFormer", 2021): `[T, each / 2]`.
struct Angles {
    cosines: Var,
    sines: Var,
    half: usize,
}

impl Angles {
    fn new(recording: &Recording, positions: &Var, each: usize) -> Self {
        let half = each / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|index| 10_000_f32.powf(-(index as f32) / half as f32))
            .collect();
        let frequencies = Tensor::from_slice(&[1, half], &frequencies).expect("memory");
        let angles = positions.cast(DType::F32).unsqueeze(1) * recording.constant(&frequencies);
        Self {
            cosines: angles.cos(),
            sines: angles.sin(),
            half,
        }
    }

    /// `x: [heads, T, each]`, the two halves of each vector rotated.
    fn rotate(&self, x: &Var) -> Var {
        let (first, second) = (
            x.slice(2, 0, self.half),
            x.slice(2, self.half, 2 * self.half),
        );
        let turned = &first * &self.cosines - &second * &self.sines;
        let other = second * &self.cosines + first * &self.sines;
        turned.concat(&[&other], 2)
    }
}
