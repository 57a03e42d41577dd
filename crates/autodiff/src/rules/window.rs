//! Convolutions: the input's cotangent is a transposed convolution, and that of the weights is a convolution over the
//! batch.

mod single_tap;

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::is_same;
use kiln_ir::{Dims, Op, PadMode, ValueId, Window};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;

impl GradientContext<'_, '_> {
    pub(super) fn conv(&mut self, window: &Window, groups: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (x, w) = (self.operand(0), self.operand(1));
        let (x_dims, w_dims) = (self.dims(x)?, self.dims(w)?);
        let of_x = match self.is_wanted(0) {
            true => Some(transposed(
                self.builder,
                g,
                w,
                window,
                groups,
                &x_dims[2..],
            )?),
            false => None,
        };
        let of_w = match self.is_wanted(1) {
            true => Some(weights(self.builder, x, g, window, groups, &w_dims)?),
            false => None,
        };
        Ok(vec![of_x, of_w])
    }

    pub(super) fn conv_transpose(&mut self, window: &Window, groups: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (x, w) = (self.operand(0), self.operand(1));
        let (x_dims, w_dims) = (self.dims(x)?, self.dims(w)?);
        let of_x = match self.is_wanted(0) {
            true => {
                let full = self.builder.conv(g, w, window.clone(), groups)?;
                Some(cut(self.builder, full, &x_dims)?)
            }
            false => None,
        };
        // The same as for a convolution, with the roles of the input and the result exchanged.
        let of_w = match self.is_wanted(1) {
            true => Some(weights(self.builder, g, x, window, groups, &w_dims)?),
            false => None,
        };
        Ok(vec![of_x, of_w])
    }
}

/// The transpose of a convolution in its input of sizes `spatial`.
pub(super) fn transposed(
    b: &mut GraphBuilder,
    g: ValueId,
    w: ValueId,
    window: &Window,
    groups: usize,
    spatial: &[DimId],
) -> Result<ValueId> {
    if groups == 1
        && let Some(mirrored) = mirrored_window(b, w, window)?
    {
        return with_mirrored_weights(b, g, w, mirrored);
    }
    let (g_dims, w_dims) = (b.shape(g)?, b.shape(w)?);
    let mut output_padding = Dims::new();
    for (axis, &size) in spatial.iter().enumerate() {
        let reach = reach(b, window, axis, (g_dims[2 + axis], w_dims[2 + axis]))?;
        let padded = b
            .dims_mut()
            .sum(&[size, window.low[axis], window.high[axis]])?;
        // The elements at the end of the axis that no window reaches.
        output_padding.push(b.dims_mut().sub(padded, reach)?);
    }
    let op = Op::ConvTranspose {
        window: window.clone(),
        output_padding,
        groups,
    };
    Ok(b.op1(op, &[g, w])?)
}

/// The window of the convolution that is the transpose of one with strides of 1, if the padding is known to be less
/// than the extent of the kernel.
fn mirrored_window(b: &mut GraphBuilder, w: ValueId, window: &Window) -> Result<Option<Window>> {
    let w_dims = b.shape(w)?;
    let (mut low, mut high) = (Dims::new(), Dims::new());
    for (axis, &kernel) in w_dims.iter().skip(2).enumerate() {
        let padding = [window.low[axis], window.high[axis]].map(|side| b.dims().as_constant(side));
        let (Some(kernel), [Some(before), Some(after)]) = (b.dims().as_constant(kernel), padding)
        else {
            return Ok(None);
        };
        let reach = window.dilations[axis].saturating_mul(kernel - 1);
        if window.strides[axis] != 1 || before > reach || after > reach {
            return Ok(None);
        }
        low.push(b.size(reach - before));
        high.push(b.size(reach - after));
    }
    let (strides, dilations) = (window.strides.clone(), window.dilations.clone());
    Ok(Some(Window {
        strides,
        dilations,
        low,
        high,
    }))
}

/// A convolution with weights `[O, C, kernel..]` as `[C, O, kernel..]`, each kernel mirrored.
fn with_mirrored_weights(
    b: &mut GraphBuilder,
    g: ValueId,
    w: ValueId,
    window: Window,
) -> Result<ValueId> {
    let rank = b.rank(w)?;
    let exchange: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
    let mut mirrored = b.transpose(w, &exchange)?;
    for axis in 2..rank {
        mirrored = b.reverse(mirrored, axis)?;
    }
    Ok(b.conv(g, mirrored, window, 1)?)
}

/// The elements that `count` windows of `kernel` elements span along an axis.
fn reach(
    b: &mut GraphBuilder,
    window: &Window,
    axis: usize,
    (count, kernel): (DimId, DimId),
) -> Result<DimId> {
    let one = b.size(1);
    let (stride, dilation) = (b.size(window.strides[axis]), b.size(window.dilations[axis]));
    let dims = b.dims_mut();
    let steps = dims.sub(count, one)?;
    let steps = dims.mul(steps, stride)?;
    let taps = dims.sub(kernel, one)?;
    let taps = dims.mul(taps, dilation)?;
    Ok(dims.sum(&[steps, taps, one])?)
}

/// The cotangent of a convolution's weights, `w_dims: [O, C / groups, kernel..]`, from its input `x: [N, C, spatial..]` and the
/// cotangent of its result `g: [N, O, spatial..]`.
///
/// It is a convolution of `x` with `g` as weights, summed over the batch in place of channels, with strides and
/// dilations exchanged. Its sums run over all windows, so the padding is materialised: no product needs a bounds check.
fn weights(
    b: &mut GraphBuilder,
    x: ValueId,
    g: ValueId,
    window: &Window,
    groups: usize,
    w_dims: &[DimId],
) -> Result<ValueId> {
    let has_one_tap = w_dims
        .iter()
        .skip(2)
        .all(|&size| b.dims().as_constant(size) == Some(1));
    if groups == 1 && has_one_tap {
        return single_tap::weights(b, (x, g), window, w_dims);
    }
    let x = padded(b, x, window)?;
    let x = reached(b, x, window, (g, w_dims))?;
    let x = channels_as_batch(b, x, groups)?;
    let rank = w_dims.len();
    let exchange: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
    let g = b.transpose(g, &exchange)?;
    let nothing: Dims = vec![b.size(0); rank - 2].into_iter().collect();
    let exchanged = Window {
        strides: window.dilations.clone(),
        dilations: window.strides.clone(),
        low: nothing.clone(),
        high: nothing,
    };
    let full = b.conv(x, g, exchanged, groups)?;
    let full = b.transpose(full, &exchange)?;
    cut(b, full, w_dims)
}

/// `x: [N, C, spatial..]` with the window's padding, of zeros.
fn padded(b: &mut GraphBuilder, x: ValueId, window: &Window) -> Result<ValueId> {
    let zero = b.size(0);
    let sides = window.low.iter().chain(&window.high);
    if sides
        .into_iter()
        .all(|&side| b.dims().as_constant(side) == Some(0))
    {
        return Ok(x);
    }
    let with_outer = |sides: &Dims| -> Dims { [zero, zero].iter().chain(sides).copied().collect() };
    let op = Op::Pad {
        low: with_outer(&window.low),
        high: with_outer(&window.high),
        mode: PadMode::Constant,
    };
    let nothing = b.scalar(b.dtype(x)?, 0.0)?;
    Ok(b.op1(op, &[x, nothing])?)
}

/// The leading elements of a padded `x` that windows reach: strides may leave some at the end unread.
fn reached(
    b: &mut GraphBuilder,
    x: ValueId,
    window: &Window,
    (g, w_dims): (ValueId, &[DimId]),
) -> Result<ValueId> {
    let (mut sizes, counts) = (b.shape(x)?, b.shape(g)?);
    for axis in 0..window.strides.len() {
        // With strides of 1, the windows reach exactly to the end.
        if window.strides[axis] != 1 {
            sizes[2 + axis] = reach(b, window, axis, (counts[2 + axis], w_dims[2 + axis]))?;
        }
    }
    cut(b, x, &sizes)
}

/// `[N, C, spatial..] -> [C / groups, groups * N, spatial..]`.
fn channels_as_batch(b: &mut GraphBuilder, x: ValueId, groups: usize) -> Result<ValueId> {
    let dims = b.shape(x)?;
    let rank = dims.len();
    if groups == 1 {
        let exchange: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
        return Ok(b.transpose(x, &exchange)?);
    }
    let count = b.size(i64::try_from(groups).unwrap_or(i64::MAX));
    let each = b.dims_mut().floor_div(dims[1], count)?;
    let mut split: Dims = [dims[0], count, each].into_iter().collect();
    split.extend(dims.iter().skip(2).copied());
    let x = b.reshape(x, &split)?;
    let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..=rank).collect();
    let x = b.transpose(x, &order)?;
    let mut merged: Dims = Dims::new();
    merged.push(each);
    merged.push(b.dims_mut().mul(count, dims[0])?);
    merged.extend(dims.iter().skip(2).copied());
    Ok(b.reshape(x, &merged)?)
}

/// Truncates each axis to its leading elements, unless it is known to have no more.
fn cut(b: &mut GraphBuilder, x: ValueId, dims: &[DimId]) -> Result<ValueId> {
    let own = b.shape(x)?;
    if own
        .iter()
        .zip(dims)
        .all(|(&own, &dim)| is_same(b, own, dim))
    {
        return Ok(b.reshape(x, dims)?);
    }
    let zero = b.size(0);
    let (starts, steps) = (vec![zero; dims.len()], vec![1; dims.len()]);
    Ok(b.slice(x, &starts, dims, &steps)?)
}
