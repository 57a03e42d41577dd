//! Contractions, pooling and resizing.

use super::GraphBuilder;
use crate::error::InferError;
use kiln_ir::{Dims, Extremum, Op, PoolFunction, ReduceFunction, Resize, ValueId, Window};
use kiln_symbolic_shape::{DimError, DimId, DimTable};
use kiln_tensor::DType;

impl GraphBuilder {
    /// `[batch.., M, K], [batch.., K, N] -> [batch.., M, N]`; integers of 16 bits or less give i32.
    ///
    /// # Errors
    /// When the inner sizes are never equal, or batch axes never broadcast.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, InferError> {
        let out = accumulator(self.dtype(a)?);
        self.op1(Op::Matmul { out }, &[a, b])
    }

    /// A sliding window: one entry per spatial axis; padding in elements.
    pub fn window(
        &mut self,
        strides: &[i64],
        dilations: &[i64],
        low: &[i64],
        high: &[i64],
    ) -> Window {
        Window {
            strides: strides.iter().copied().collect(),
            dilations: dilations.iter().copied().collect(),
            low: self.sizes(low),
            high: self.sizes(high),
        }
    }

    /// The padding for which the number of windows is `ceil(size / stride)`: before and after. The odd element goes after
    /// if `upper`, otherwise before.
    ///
    /// # Errors
    /// When a size overflows.
    pub fn same_padding(
        &mut self,
        size: DimId,
        kernel: DimId,
        stride: i64,
        dilation: i64,
        upper: bool,
    ) -> Result<(DimId, DimId), InferError> {
        let padding = same_padding(self.dims_mut(), size, kernel, stride, dilation);
        let (less, more) = self.place(padding)?;
        Ok(if upper { (less, more) } else { (more, less) })
    }

    /// `x: [N, C, spatial..], w: [O, C / groups, kernel..] -> [N, O, spatial..]`; integers of 16 bits or less give i32.
    ///
    /// # Errors
    /// When channels or groups never match, or the result's size is always negative.
    pub fn conv(
        &mut self,
        x: ValueId,
        w: ValueId,
        window: Window,
        groups: usize,
    ) -> Result<ValueId, InferError> {
        let out = accumulator(self.dtype(x)?);
        self.op1(
            Op::Conv {
                window,
                groups,
                out,
            },
            &[x, w],
        )
    }

    /// The transpose of [`conv`](Self::conv) in its input: `x: [N, C, spatial..], w: [C, O / groups, kernel..]`.
    ///
    /// `output_padding` is added at the high end of each spatial axis: it selects one of the input sizes that `conv`
    /// maps to the sizes of `x`.
    ///
    /// # Errors
    /// As [`conv`](Self::conv), and when an output padding is always negative.
    pub fn conv_transpose(
        &mut self,
        x: ValueId,
        w: ValueId,
        window: Window,
        output_padding: &[DimId],
        groups: usize,
    ) -> Result<ValueId, InferError> {
        let output_padding = Dims::from_slice(output_padding);
        self.op1(
            Op::ConvTranspose {
                window,
                output_padding,
                groups,
            },
            &[x, w],
        )
    }

    /// `[N, C, spatial..] -> [N, C, spatial..]`.
    ///
    /// # Errors
    /// When the window does not match the operand's rank, or the result's size is always negative.
    pub fn pool(
        &mut self,
        x: ValueId,
        function: PoolFunction,
        size: &[i64],
        window: Window,
    ) -> Result<ValueId, InferError> {
        let size = size.iter().copied().collect();
        self.op1(
            Op::Pool {
                function,
                size,
                window,
            },
            &[x],
        )
    }

    /// The position of the maximum of each window: `[N, C, spatial..] -> i64 [N, C, spatial..]`, in row-major order
    /// over the operand's spatial axes; -1 for a window that consists only of padding.
    ///
    /// # Errors
    /// As [`pool`](Self::pool).
    pub fn arg_pool(
        &mut self,
        x: ValueId,
        size: &[i64],
        window: Window,
    ) -> Result<ValueId, InferError> {
        let size = size.iter().copied().collect();
        self.op1(Op::ArgPool { size, window }, &[x])
    }

    /// The mean over all spatial axes, which are kept with size 1.
    ///
    /// # Errors
    /// When the operand is not a tensor of floats.
    pub fn global_mean_pool(&mut self, x: ValueId) -> Result<ValueId, InferError> {
        let axes: Vec<usize> = (2..self.rank(x)?).collect();
        self.reduce(x, ReduceFunction::Mean, &axes, true)
    }

    /// Resamples some axes.
    ///
    /// # Errors
    /// When the lists differ in length, or an axis does not exist.
    pub fn resize(&mut self, x: ValueId, resize: Resize) -> Result<ValueId, InferError> {
        self.op1(Op::Resize(resize), &[x])
    }

    /// The `k` largest or smallest along an axis, and their indices.
    ///
    /// # Errors
    /// When the axis does not exist, or `k` is always larger than it.
    pub fn top_k(
        &mut self,
        x: ValueId,
        k: DimId,
        axis: usize,
        extremum: Extremum,
    ) -> Result<(ValueId, ValueId), InferError> {
        let results = self.op(Op::TopK { k, axis, extremum }, &[x])?;
        match results.as_slice() {
            &[values, indices] => Ok((values, indices)),
            _ => unreachable!("the rule of top_k gives two types"),
        }
    }

    /// The indices of the nonzero elements: `i64[rank, n]`, `n` a symbol that depends on the data.
    ///
    /// # Errors
    /// When the operand is not a tensor.
    pub fn non_zero(&mut self, x: ValueId) -> Result<ValueId, InferError> {
        let results = self.op(Op::NonZero, &[x])?;
        self.first_found(&results, 1)
    }

    /// Non-maximum suppression, [`Op::Suppress`] of these four operands: `i64[n, 3]`, `n` a symbol that depends on the data.
    ///
    /// # Errors
    /// When operands do not fit.
    pub fn suppress(&mut self, operands: [ValueId; 4], k: DimId) -> Result<ValueId, InferError> {
        let results = self.op(Op::Suppress { k }, &operands)?;
        self.first_found(&results, 0)
    }

    /// The first entries of a result along an axis; its second result is their number.
    fn first_found(&mut self, results: &[ValueId], axis: usize) -> Result<ValueId, InferError> {
        let &[found, count] = results else {
            unreachable!("these ops have two results")
        };
        let count = self.bind_sizes(count)?;
        let zero = self.size(0);
        match count.as_slice() {
            &[count] => self.slice_axis(found, axis, zero, count),
            _ => unreachable!("a scalar binds one symbol"),
        }
    }

    /// The window of a plain reduction over everything: no padding, strides of 1.
    pub fn plain_window(&mut self, spatial_rank: usize) -> Window {
        let (ones, zeros) = (vec![1; spatial_rank], vec![0; spatial_rank]);
        self.window(&ones, &ones, &zeros, &zeros)
    }

    /// Vectors along axis 1, such as biases and norms' scales, reshaped to broadcast against rank `rank`.
    pub(super) fn along_channels(
        &mut self,
        vector: ValueId,
        rank: usize,
    ) -> Result<ValueId, InferError> {
        let one = self.size(1);
        let mut dims: Dims = self.shape(vector)?;
        dims.extend((2..rank).map(|_| one));
        self.reshape(vector, &dims)
    }

    /// A bias `[C]` added along axis 1 of `x: [N, C, ..]`.
    ///
    /// # Errors
    /// When the sizes never broadcast.
    pub fn add_channel_bias(&mut self, x: ValueId, bias: ValueId) -> Result<ValueId, InferError> {
        let rank = self.rank(x)?;
        let bias = self.along_channels(bias, rank)?;
        self.add(x, bias)
    }
}

/// The dtype in which products of `dtype` are accumulated.
fn accumulator(dtype: DType) -> DType {
    if dtype.is_integer() && dtype.bits() <= 16 {
        DType::I32
    } else {
        dtype
    }
}

/// Half of the padding, rounded down, and the rest.
fn same_padding(
    dims: &mut DimTable,
    size: DimId,
    kernel: DimId,
    stride: i64,
    dilation: i64,
) -> Result<(DimId, DimId), DimError> {
    let (zero, one, two) = (dims.constant(0), dims.constant(1), dims.constant(2));
    let (stride, dilation) = (dims.constant(stride), dims.constant(dilation));
    // (ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, at least 0
    let windows = dims.ceil_div(size, stride)?;
    let steps = dims.sub(windows, one)?;
    let steps = dims.mul(steps, stride)?;
    let reach = dims.sub(kernel, one)?;
    let reach = dims.mul(reach, dilation)?;
    let needed = dims.sum(&[steps, reach, one])?;
    let missing = dims.sub(needed, size)?;
    let total = dims.max(missing, zero)?;
    let less = dims.floor_div(total, two)?;
    let more = dims.sub(total, less)?;
    Ok((less, more))
}
