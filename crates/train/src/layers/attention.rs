//! Attention.

use crate::initial::Initial;
use crate::network::Network;
use kiln::Var;

/// The sizes of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSizes {
    /// The width of its operand and result.
    pub width: usize,
    /// The number of heads, which divides the width.
    pub heads: usize,
    /// Whether a position attends only to itself and those before it.
    pub is_causal: bool,
}

impl Network {
    /// Multi-head self-attention of `x: [batch, time, width]`, as PyTorch's `MultiheadAttention` with the batch first:
    /// `NAME.in_proj_weight: [3 * width, width]`, `NAME.in_proj_bias: [3 * width]`, `NAME.out_proj.weight: [width, width]` and
    /// `NAME.out_proj.bias: [width]`.
    #[track_caller]
    pub fn attention(&self, name: &str, x: &Var, sizes: AttentionSizes) -> Var {
        let AttentionSizes {
            width,
            heads,
            is_causal,
        } = sizes;
        let layer = self.within(name);
        let glorot = Initial::Glorot {
            fan_in: width,
            fan_out: 3 * width,
        };
        let weight = layer.parameter("in_proj_weight", &[3 * width, width], glorot);
        let bias = layer.parameter("in_proj_bias", &[3 * width], Initial::Constant(0.0));
        let each = width / heads.max(1);
        let (batch, time) = (x.size(0), x.size(1));
        let projected = x.matmul(weight.transpose()) + bias;
        let split = projected.reshape([
            batch.clone(),
            time.clone(),
            3_usize.into(),
            heads.into(),
            each.into(),
        ]);
        // `[3, batch, heads, time, each]`.
        let split = split.permute(&[2, 0, 3, 1, 4]);
        let part = |index: i64| split.slice(0, index, index + 1).squeeze(&[0]);
        let (q, k, v) = (part(0), part(1), part(2));
        let mut scores = q.matmul(k.transpose()) * (each.max(1) as f64).sqrt().recip();
        if is_causal {
            scores = causal(&scores);
        }
        let mixed = scores.softmax(-1).matmul(v);
        let merged = mixed
            .permute(&[0, 2, 1, 3])
            .reshape([batch, time, width.into()]);
        layer.linear("out_proj", &merged, width, width)
    }
}

/// Scores `[.., time, time]` with those of later positions set to minus infinity.
#[track_caller]
fn causal(scores: &Var) -> Var {
    let (rows, columns) = (scores.size(-2), scores.size(-1));
    let row = scores.positions(rows).unsqueeze(1);
    let column = scores.positions(columns);
    let is_later = row.less(column);
    let never = scores.scalar(f64::NEG_INFINITY);
    is_later.select(never, scores)
}
