//! Softmax and the norms, decomposed into core ops.

use super::GraphBuilder;
use crate::error::InferError;
use kiln_ir::{Dims, ValueId};

impl GraphBuilder {
    /// `exp(x - max) / sum(exp(x - max))` along `axis`.
    ///
    /// # Errors
    /// When the axis does not exist, or the operand is not a tensor of floats.
    pub fn softmax(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let shifted = self.minus_max(x, axis)?;
        let powers = self.exp(shifted)?;
        let sum = self.reduce_sum(powers, &[axis], true)?;
        self.div(powers, sum)
    }

    /// The logarithm of [`softmax`](Self::softmax): `x - max - log(sum(exp(x - max)))`.
    ///
    /// # Errors
    /// As [`softmax`](Self::softmax).
    pub fn log_softmax(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let shifted = self.minus_max(x, axis)?;
        let powers = self.exp(shifted)?;
        let sum = self.reduce_sum(powers, &[axis], true)?;
        let log = self.log(sum)?;
        self.sub(shifted, log)
    }

    /// `(x - mean) / sqrt(variance + epsilon)` over `axis` and all inner axes, then scaled and shifted.
    ///
    /// # Errors
    /// When the axis does not exist, the operand is not a tensor of floats, or sizes never broadcast.
    pub fn layer_norm(
        &mut self,
        x: ValueId,
        axis: usize,
        scale: Option<ValueId>,
        bias: Option<ValueId>,
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let rank = self.rank(x)?;
        self.expect_axis(axis, rank)?;
        let axes: Vec<usize> = (axis..rank).collect();
        let normal = self.standardize(x, &axes, epsilon)?;
        self.scale_and_shift(normal, scale, bias)
    }

    /// `x / sqrt(mean(x * x) + epsilon)` over `axis` and all inner axes, then scaled.
    ///
    /// # Errors
    /// As [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(
        &mut self,
        x: ValueId,
        axis: usize,
        scale: Option<ValueId>,
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let rank = self.rank(x)?;
        self.expect_axis(axis, rank)?;
        let axes: Vec<usize> = (axis..rank).collect();
        let normal = self.over_root_mean_square(x, x, &axes, epsilon)?;
        self.scale_and_shift(normal, scale, None)
    }

    /// Each channel of each sample of `x: [N, C, spatial..]` standardised, then scaled and shifted per channel.
    ///
    /// # Errors
    /// When the operand has no spatial axes or is not a tensor of floats, or sizes never broadcast.
    pub fn instance_norm(
        &mut self,
        x: ValueId,
        scale: ValueId,
        bias: ValueId,
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let rank = self.rank(x)?;
        self.expect_axis(1, rank)?;
        let axes: Vec<usize> = (2..rank).collect();
        let normal = self.standardize(x, &axes, epsilon)?;
        let (scale, bias) = (
            self.along_channels(scale, rank)?,
            self.along_channels(bias, rank)?,
        );
        self.scale_and_shift(normal, Some(scale), Some(bias))
    }

    /// Groups of channels of `x: [N, C, spatial..]` standardised, then scaled and shifted per channel.
    ///
    /// # Errors
    /// When `groups` never divides the channels, or sizes never broadcast.
    pub fn group_norm(
        &mut self,
        x: ValueId,
        groups: i64,
        scale: ValueId,
        bias: ValueId,
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        let rank = own.len();
        self.expect_axis(1, rank)?;
        let groups = self.size(groups);
        let size = self.dims_mut().floor_div(own[1], groups);
        let size = self.place(size)?;
        let grouped: Dims = [own[0], groups, size]
            .into_iter()
            .chain(own.iter().skip(2).copied())
            .collect();
        let split = self.reshape(x, &grouped)?;
        let axes: Vec<usize> = (2..grouped.len()).collect();
        let normal = self.standardize(split, &axes, epsilon)?;
        let normal = self.reshape(normal, &own)?;
        let (scale, bias) = (
            self.along_channels(scale, rank)?,
            self.along_channels(bias, rank)?,
        );
        self.scale_and_shift(normal, Some(scale), Some(bias))
    }

    /// `(x - mean) * (scale / sqrt(variance + epsilon)) + bias` per channel of `x: [N, C, ..]`, with given statistics:
    /// `f32[C]` each.
    ///
    /// # Errors
    /// When sizes never broadcast, or dtypes differ.
    pub fn batch_norm(
        &mut self,
        x: ValueId,
        [scale, bias, mean, variance]: [ValueId; 4],
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let rank = self.rank(x)?;
        let epsilon = self.scalar(self.dtype(variance)?, epsilon)?;
        let spread = self.add(variance, epsilon)?;
        let inverse = self.rsqrt(spread)?;
        let factor = self.mul(scale, inverse)?;
        let (mean, factor, bias) = (
            self.along_channels(mean, rank)?,
            self.along_channels(factor, rank)?,
            self.along_channels(bias, rank)?,
        );
        let centred = self.sub(x, mean)?;
        let scaled = self.mul(centred, factor)?;
        self.add(scaled, bias)
    }

    /// `x / max(sqrt(sum(x * x)), epsilon)` over `axes`.
    ///
    /// # Errors
    /// When an axis does not exist, or the operand is not a tensor of floats.
    pub fn l2_normalize(
        &mut self,
        x: ValueId,
        axes: &[usize],
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let squares = self.square(x)?;
        let sum = self.reduce_sum(squares, axes, true)?;
        let norm = self.sqrt(sum)?;
        let epsilon = self.scalar(self.dtype(x)?, epsilon)?;
        let norm = self.max(norm, epsilon)?;
        self.div(x, norm)
    }

    /// The maximum cancels out of the values computed from this, so its gradient is zero; this spares differentiation
    /// from having to find that.
    fn minus_max(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let max = self.reduce_max(x, &[axis], true)?;
        let max = self.map("stop_gradient", &[max])?;
        self.sub(x, max)
    }

    /// Mean 0 and variance 1 over `axes`.
    fn standardize(
        &mut self,
        x: ValueId,
        axes: &[usize],
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let mean = self.reduce_mean(x, axes, true)?;
        let centred = self.sub(x, mean)?;
        self.over_root_mean_square(centred, centred, axes, epsilon)
    }

    /// `x / sqrt(mean(of * of) + epsilon)`.
    fn over_root_mean_square(
        &mut self,
        x: ValueId,
        of: ValueId,
        axes: &[usize],
        epsilon: f64,
    ) -> Result<ValueId, InferError> {
        let squares = self.square(of)?;
        let mean = self.reduce_mean(squares, axes, true)?;
        let epsilon = self.scalar(self.dtype(x)?, epsilon)?;
        let spread = self.add(mean, epsilon)?;
        let inverse = self.rsqrt(spread)?;
        self.mul(x, inverse)
    }

    fn scale_and_shift(
        &mut self,
        x: ValueId,
        scale: Option<ValueId>,
        bias: Option<ValueId>,
    ) -> Result<ValueId, InferError> {
        let scaled = match scale {
            Some(scale) => self.mul(x, scale)?,
            None => x,
        };
        match bias {
            Some(bias) => self.add(scaled, bias),
            None => Ok(scaled),
        }
    }
}
