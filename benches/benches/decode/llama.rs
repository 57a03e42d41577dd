//! A decoder in the shape of Llama, with drawn weights and caches of fixed capacity: what one call computes.

use kiln::internals::ir::Graph;
use kiln::{DType, Recording, Tensor, Var};

/// The sizes of a decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Elements of a token's vector.
    pub(crate) width: usize,
    pub(crate) layers: usize,
    /// Heads of queries.
    pub(crate) heads: usize,
    /// Heads of keys and values, each shared by several of queries.
    pub(crate) kv_heads: usize,
    /// Elements within the feed-forward part.
    pub(crate) hidden: usize,
    pub(crate) vocabulary: usize,
}

impl Shape {
    /// Elements of a head.
    pub(crate) fn each(&self) -> usize {
        self.width / self.heads
    }

    /// Weights that every token reads: all but the table of embeddings.
    pub(crate) fn n_weights(&self) -> usize {
        let shared = self.kv_heads * self.each();
        let attention = 2 * self.width * self.width + 2 * self.width * shared;
        let feed_forward = 3 * self.width * self.hidden;
        self.layers * (attention + feed_forward) + self.width * self.vocabulary
    }

    /// The name of a cache.
    pub(crate) fn cache(layer: usize, part: &str) -> String {
        format!("cache.{layer}.{part}")
    }

    /// Its sizes, for a capacity.
    pub(crate) fn cache_sizes(&self, capacity: usize) -> [usize; 3] {
        [self.kv_heads, capacity, self.each()]
    }
}

/// Draws weights: small numbers whose sums stay near one.
struct Weights(u64);

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

/// The graph of a call: `tokens: i64[T]`, the position of the first, `at: i64[1]`, and a cache of keys and one of values per
/// layer, `f32[kv_heads, capacity, each]`; to the logits of the last token, `f32[1, vocabulary]`, and the next caches.
pub(crate) fn graph(shape: &Shape, capacity: usize) -> Graph {
    let recording = Recording::new("llama");
    let mut weights = Weights(0x9E37_79B9_7F4A_7C15);
    let tokens = recording.input("tokens", DType::I64, ["T".into()]);
    let at = recording.input("at", DType::I64, [1.into()]);
    let table = weights.matrix(&recording, shape.vocabulary, shape.width);
    let mut x = table.gather(&tokens, 0);
    let positions = tokens.positions(tokens.size(0)) + &at;
    let angles = Angles::new(&recording, &positions, shape.each());
    let mut caches: Vec<(String, Var)> = Vec::new();
    for layer in 0..shape.layers {
        let sizes = shape.cache_sizes(capacity).map(Into::into);
        let cache = |part| recording.input(&Shape::cache(layer, part), DType::F32, sizes.clone());
        let (keys, values) = (cache("keys"), cache("values"));
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
        let mixed = attention(shape, &q, (&keys, &values), &positions);
        let out = weights.matrix(&recording, shape.width, shape.width);
        x = &x + mixed.matmul(out);
        let normal = rms_norm(&x);
        let mut dense =
            |x: &Var, rows, columns| x.matmul(weights.matrix(&recording, rows, columns));
        let gate = dense(&normal, shape.width, shape.hidden).silu();
        let up = dense(&normal, shape.width, shape.hidden);
        x = &x + dense(&(gate * up), shape.hidden, shape.width);
        caches.push((Shape::cache(layer, "keys"), keys));
        caches.push((Shape::cache(layer, "values"), values));
    }
    // An index below 0 counts from the end.
    let last = Tensor::from_slice(&[1], &[-1_i64]).expect("memory");
    let last = x.gather(recording.constant(&last), 0);
    let head = weights.matrix(&recording, shape.width, shape.vocabulary);
    let logits = rms_norm(&last).matmul(head);
    let caches: Vec<(String, Var)> = caches
        .into_iter()
        .map(|(name, cache)| (format!("next.{name}"), cache))
        .collect();
    let mut outputs = vec![("logits", &logits)];
    outputs.extend(caches.iter().map(|(name, cache)| (name.as_str(), cache)));
    recording.finish(&outputs).expect("the types are right")
}

fn rms_norm(x: &Var) -> Var {
    x * (x.square().mean_keep(-1) + 1e-5).rsqrt()
}

/// Causal attention of `q: [heads, T, each]` over the whole caches; positions after a token's own get no weight.
fn attention(shape: &Shape, q: &Var, (keys, values): (&Var, &Var), positions: &Var) -> Var {
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
