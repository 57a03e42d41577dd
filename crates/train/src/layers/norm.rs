//! Normalisation.

use super::conv::along_channels;
use crate::initial::Initial;
use crate::network::Network;
use kiln::Var;

/// PyTorch's default.
const EPSILON: f64 = 1e-5;
/// The weight of a batch's statistics in the running ones: PyTorch's default.
const MOMENTUM: f64 = 0.1;

impl Network {
    /// Layer normalisation: `x` with mean 0 and variance 1 along its last axis of `width` elements, times
    /// `NAME.weight`, plus `NAME.bias`.
    #[track_caller]
    pub fn layer_norm(&self, name: &str, x: &Var, width: usize) -> Var {
        let layer = self.within(name);
        let weight = layer.parameter("weight", &[width], Initial::Constant(1.0));
        let bias = layer.parameter("bias", &[width], Initial::Constant(0.0));
        let centred = x - x.mean_keep(-1);
        let variance = centred.square().mean_keep(-1);
        centred * (variance + EPSILON).rsqrt() * weight + bias
    }

    /// RMS normalisation: `x` divided by its root mean square along its last axis of `width` elements, times
    /// `NAME.weight`.
    #[track_caller]
    pub fn rms_norm(&self, name: &str, x: &Var, width: usize) -> Var {
        let layer = self.within(name);
        let weight = layer.parameter("weight", &[width], Initial::Constant(1.0));
        x * (x.square().mean_keep(-1) + EPSILON).rsqrt() * weight
    }

    /// Batch normalisation: each channel of `x: [N, channels, ..]` with mean 0 and variance 1 over the batch while
    /// [training](Network::is_training), otherwise by running statistics; times `NAME.weight`, plus `NAME.bias`. The
    /// running statistics `NAME.running_mean` and `NAME.running_var` are updated by each step and are not parameters.
    #[track_caller]
    pub fn batch_norm(&self, name: &str, x: &Var, channels: usize) -> Var {
        let layer = self.within(name);
        let rank = x.rank();
        let weight = layer.parameter("weight", &[channels], Initial::Constant(1.0));
        let bias = layer.parameter("bias", &[channels], Initial::Constant(0.0));
        let running_mean = layer.buffer("running_mean", &[channels], Initial::Constant(0.0));
        let running_var = layer.buffer("running_var", &[channels], Initial::Constant(1.0));
        let (mean, variance) = if self.is_training() {
            let axes: Vec<i64> = (0..rank)
                .filter(|&axis| axis != 1)
                .filter_map(|axis| i64::try_from(axis).ok())
                .collect();
            let mean = x.mean(axes.as_slice());
            let centred = x - along_channels(&mean, rank);
            let variance = centred.square().mean(axes.as_slice());
            // PyTorch's running variance is the unbiased one, which divides by one less than the number of elements.
            let ones = x.stop_gradient() * 0.0 + 1.0;
            let count = ones.sum(axes.as_slice());
            let unbiased = &variance * &count / (&count - 1.0).maximum(1.0);
            let blend = |old: &Var, new: Var| old * (1.0 - MOMENTUM) + new * MOMENTUM;
            layer.set_buffer("running_mean", &blend(&running_mean, mean.stop_gradient()));
            layer.set_buffer(
                "running_var",
                &blend(&running_var, unbiased.stop_gradient()),
            );
            (mean, variance)
        } else {
            (running_mean, running_var)
        };
        let factor = (variance + EPSILON).rsqrt() * weight;
        (x - along_channels(&mean, rank)) * along_channels(&factor, rank)
            + along_channels(&bias, rank)
    }
}
