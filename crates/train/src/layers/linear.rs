//! Affine maps and embeddings.

use crate::initial::Initial;
use crate::network::Network;
use kiln::Var;

impl Network {
    /// `x Wᵀ + b`: `x: [.., inputs] -> [.., outputs]`, with `NAME.weight: [outputs, inputs]` and `NAME.bias: [outputs]`.
    #[track_caller]
    pub fn linear(&self, name: &str, x: &Var, inputs: usize, outputs: usize) -> Var {
        let product = self.linear_without_bias(name, x, inputs, outputs);
        let layer = self.within(name);
        product + layer.parameter("bias", &[outputs], Initial::Constant(0.0))
    }

    /// `x Wᵀ`: [`linear`](Self::linear) without the bias.
    #[track_caller]
    pub fn linear_without_bias(&self, name: &str, x: &Var, inputs: usize, outputs: usize) -> Var {
        let weight = Initial::He { fan_in: inputs };
        let weight = self
            .within(name)
            .parameter("weight", &[outputs, inputs], weight);
        x.matmul(weight.transpose())
    }

    /// Rows of `NAME.weight: [count, width]` at indices: `indices: int[..] -> [.., width]`.
    #[track_caller]
    pub fn embedding(&self, name: &str, indices: &Var, count: usize, width: usize) -> Var {
        let layer = self.within(name);
        let weight = layer.parameter("weight", &[count, width], Initial::Normal(1.0));
        weight.gather(indices, 0)
    }
}
