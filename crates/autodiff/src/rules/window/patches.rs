//! The cotangent of a convolution's weights as one matrix product over all windows.
//!
//! The elements under each tap of the kernel are a slice of the padded input, channels last: side by side they are a matrix
//! of patches, `[N * windows, taps * C]`, and its transpose times the cotangent `[N * windows, O]` is the result. The
//! windows are the long axis that is summed over, which the schedules of products split.

use crate::Result;
use kiln_ir::{Dims, Op, PadMode, ValueId, Window};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;

/// The maximum number of taps: the patches have as many times the elements of the input.
const MAX_TAPS: i64 = 49;

/// The sizes of the kernel, if a matrix of patches is worth it: one group, and few taps.
pub(super) fn taps_of(b: &GraphBuilder, groups: usize, w_dims: &[DimId]) -> Option<Vec<i64>> {
    let sizes = w_dims.get(2..)?.iter();
    let sizes: Option<Vec<i64>> = sizes.map(|&dim| b.dims().as_constant(dim)).collect();
    let sizes = sizes?;
    let taps = sizes
        .iter()
        .try_fold(1_i64, |product, &size| product.checked_mul(size))?;
    (groups == 1 && (1..=MAX_TAPS).contains(&taps)).then_some(sizes)
}

/// The cotangent of weights `[O, C, kernel..]` from the input `x: [N, C, spatial..]` and the result's cotangent
/// `g: [N, O, spatial..]`.
pub(super) fn weights(
    b: &mut GraphBuilder,
    (x, g): (ValueId, ValueId),
    window: &Window,
    kernel: &[i64],
    w_dims: &[DimId],
) -> Result<ValueId> {
    let (outputs, channels) = (w_dims[0], w_dims[1]);
    let g_dims = b.shape(g)?;
    let rank = g_dims.len();
    let last: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let g = b.transpose(g, &last)?;
    let mut rows: Dims = [g_dims[0]].into_iter().collect();
    rows.extend(g_dims.iter().skip(2).copied());
    let n_rows = b.dims_mut().product(&rows)?;
    let g = b.reshape(g, &[n_rows, outputs])?;

    let x = padded(b, x, window)?;
    let x = b.transpose(x, &last)?;
    let mut slices = Vec::new();
    for tap in positions(kernel) {
        slices.push(under_tap(b, x, &tap, window, &rows, channels)?);
    }
    let patches = match slices.as_slice() {
        &[only] => only,
        all => b.concat(all, rank - 1)?,
    };
    let taps: i64 = kernel.iter().product();
    let taps = b.size(taps);
    let columns = b.dims_mut().mul(taps, channels)?;
    let patches = b.reshape(patches, &[n_rows, columns])?;
    let patches = b.transpose(patches, &[1, 0])?;
    let product = b.matmul(patches, g)?;

    // `[kernel.., C, O] -> [O, C, kernel..]`.
    let mut split: Dims = b.sizes(kernel);
    split.extend([channels, outputs]);
    let product = b.reshape(product, &split)?;
    let spatial = kernel.len();
    let order: Vec<usize> = [spatial + 1, spatial]
        .into_iter()
        .chain(0..spatial)
        .collect();
    Ok(b.transpose(product, &order)?)
}

/// The positions of a kernel's taps, the last axis fastest.
fn positions(kernel: &[i64]) -> Vec<Vec<i64>> {
    kernel.iter().fold(vec![Vec::new()], |positions, &size| {
        let longer = |start: &Vec<i64>, at: i64| start.iter().copied().chain([at]).collect();
        let all = positions.iter();
        all.flat_map(|start| (0..size).map(move |at| longer(start, at)))
            .collect()
    })
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

/// The elements of `x: [N, spatial.., C]` under one tap of every window: `[rows.., C]`, rows being the batch and the windows.
fn under_tap(
    b: &mut GraphBuilder,
    x: ValueId,
    tap: &[i64],
    window: &Window,
    rows: &Dims,
    channels: DimId,
) -> Result<ValueId> {
    let zero = b.size(0);
    let mut starts: Dims = [zero].into_iter().collect();
    for (&at, &dilation) in tap.iter().zip(&window.dilations) {
        starts.push(b.size(at * dilation));
    }
    starts.push(zero);
    let mut sizes = rows.clone();
    sizes.push(channels);
    let mut steps = vec![1];
    steps.extend(window.strides.iter().copied());
    steps.push(1);
    Ok(b.slice(x, &starts, &sizes, &steps)?)
}
