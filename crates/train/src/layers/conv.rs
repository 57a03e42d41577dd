//! Convolutions.

use crate::initial::Initial;
use crate::network::Network;
use kiln::{Var, WindowOptions};

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSizes {
    /// The channels of its operand.
    pub inputs: usize,
    /// The channels of its result.
    pub outputs: usize,
    /// The elements of its kernel along each spatial axis.
    pub kernel: usize,
}

impl ConvSizes {
    /// From channels to channels, with a kernel of `kernel` elements along each spatial axis.
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> Self {
        Self {
            inputs,
            outputs,
            kernel,
        }
    }

    /// `[first, second, kernel..]`, with one kernel axis for each spatial axis of `x: [N, C, spatial..]`.
    fn weight(self, x: &Var, first: usize, second: usize) -> Vec<usize> {
        let mut shape = vec![first, second];
        shape.extend(std::iter::repeat_n(self.kernel, x.rank().saturating_sub(2)));
        shape
    }
}

impl Network {
    /// A convolution with a bias: `x: [N, inputs, spatial..] -> [N, outputs, spatial..]`, with
    /// `NAME.weight: [outputs, inputs / groups, kernel..]` and `NAME.bias: [outputs]`.
    #[track_caller]
    pub fn conv(&self, name: &str, x: &Var, sizes: ConvSizes, options: WindowOptions) -> Var {
        let layer = self.within(name);
        let each = sizes.inputs / options.groups.max(1);
        let shape = sizes.weight(x, sizes.outputs, each);
        let fan_in = shape.iter().skip(1).product();
        let weight = layer.parameter("weight", &shape, Initial::He { fan_in });
        let bias = layer.parameter("bias", &[sizes.outputs], Initial::Constant(0.0));
        x.conv(&weight, options) + along_channels(&bias, x.rank())
    }

    /// The transpose of a convolution, with a bias: `x: [N, inputs, spatial..] -> [N, outputs, spatial..]`, with
    /// `NAME.weight: [inputs, outputs / groups, kernel..]` and `NAME.bias: [outputs]`.
    #[track_caller]
    pub fn conv_transpose(
        &self,
        name: &str,
        x: &Var,
        sizes: ConvSizes,
        options: WindowOptions,
    ) -> Var {
        let layer = self.within(name);
        let each = sizes.outputs / options.groups.max(1);
        let shape = sizes.weight(x, sizes.inputs, each);
        let fan_in = shape.iter().skip(1).product();
        let weight = layer.parameter("weight", &shape, Initial::He { fan_in });
        let bias = layer.parameter("bias", &[sizes.outputs], Initial::Constant(0.0));
        x.conv_transpose(&weight, options, 0) + along_channels(&bias, x.rank())
    }
}

/// A vector `[C]` as `[C, 1, ..]`, which broadcasts along the channels of a tensor of this rank.
#[track_caller]
pub(super) fn along_channels(vector: &Var, rank: usize) -> Var {
    (2..rank).fold(vector.clone(), |vector, axis| {
        vector.unsqueeze(i64::try_from(axis - 1).unwrap_or(1))
    })
}
