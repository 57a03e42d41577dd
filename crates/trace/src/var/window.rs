//! Convolutions and poolings.

use super::Var;
use kiln_ir::{PoolFunction, Window};
use kiln_shape_inference::GraphBuilder;

/// How a window of a convolution or pooling moves: the same along every spatial axis.
///
/// ```
/// use kiln_tensor::DType;
/// use kiln_trace::{Recording, WindowOptions};
///
/// let recording = Recording::new("blur");
/// let x = recording.input("x", DType::F32, ["B".into(), 3.into(), "H".into(), "W".into()]);
/// let w = recording.input("w", DType::F32, [8.into(), 3.into(), 3.into(), 3.into()]);
/// let y = x.conv(&w, WindowOptions::default().padding(1));
/// assert_eq!(format!("{y:?}"), "%2: f32[B, 8, H, W]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// The elements from one window to the next.
    pub stride: i64,
    /// The elements from one tap of a window to the next.
    pub dilation: i64,
    /// The elements of padding before and after each axis: zeros, which a maximum or a mean ignores.
    pub padding: i64,
    /// For a convolution: the number of groups of channels, which are convolved independently.
    pub groups: usize,
}

impl Default for WindowOptions {
    /// Strides and dilations of 1, no padding, one group.
    fn default() -> Self {
        Self {
            stride: 1,
            dilation: 1,
            padding: 0,
            groups: 1,
        }
    }
}

impl WindowOptions {
    /// With this stride.
    #[must_use]
    pub fn stride(self, stride: i64) -> Self {
        Self { stride, ..self }
    }

    /// With this dilation.
    #[must_use]
    pub fn dilation(self, dilation: i64) -> Self {
        Self { dilation, ..self }
    }

    /// With this padding.
    #[must_use]
    pub fn padding(self, padding: i64) -> Self {
        Self { padding, ..self }
    }

    /// With this number of groups.
    #[must_use]
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    fn window(self, builder: &mut GraphBuilder, axes: usize) -> Window {
        builder.window(
            &vec![self.stride; axes],
            &vec![self.dilation; axes],
            &vec![self.padding; axes],
            &vec![self.padding; axes],
        )
    }
}

impl Var {
    /// `[N, C, spatial..], [O, C / groups, kernel..] -> [N, O, spatial..]`, any number of spatial axes.
    #[must_use]
    #[track_caller]
    pub fn conv(&self, weight: impl AsRef<Var>, options: WindowOptions) -> Var {
        self.record_with(&[weight.as_ref()], |builder, x, others| {
            let axes = builder.rank(x)?.saturating_sub(2);
            let window = options.window(builder, axes);
            builder.conv(x, others[0], window, options.groups)
        })
    }

    /// The transpose of [`conv`](Self::conv) in its operand: `[N, C, spatial..], [C, O / groups, kernel..] -> [N, O,
    /// spatial..]`, with `output_padding` more elements at the end of each axis.
    #[must_use]
    #[track_caller]
    pub fn conv_transpose(
        &self,
        weight: impl AsRef<Var>,
        options: WindowOptions,
        output_padding: i64,
    ) -> Var {
        self.record_with(&[weight.as_ref()], |builder, x, others| {
            let axes = builder.rank(x)?.saturating_sub(2);
            let window = options.window(builder, axes);
            let more = builder.sizes(&vec![output_padding; axes]);
            builder.conv_transpose(x, others[0], window, &more, options.groups)
        })
    }

    /// The maximum of each window of `size` elements per axis: `[N, C, spatial..] -> [N, C, spatial..]`.
    #[must_use]
    #[track_caller]
    pub fn max_pool(&self, size: i64, options: WindowOptions) -> Var {
        self.pool(PoolFunction::Max, size, options)
    }

    /// The mean of each window of `size` elements per axis, padding not counted: `[N, C, spatial..] -> [N, C, spatial..]`.
    #[must_use]
    #[track_caller]
    pub fn mean_pool(&self, size: i64, options: WindowOptions) -> Var {
        self.pool(PoolFunction::Mean, size, options)
    }

    #[track_caller]
    fn pool(&self, function: PoolFunction, size: i64, options: WindowOptions) -> Var {
        self.record(|builder, x| {
            let axes = builder.rank(x)?.saturating_sub(2);
            let window = options.window(builder, axes);
            builder.pool(x, function, &vec![size; axes], window)
        })
    }
}
