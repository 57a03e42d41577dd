//! The cotangent of the weights of a convolution whose windows are single elements: one matrix product over all windows.
//!
//! The elements under the tap, channels last, are a matrix `[N * windows, C]`; its transpose times the cotangent
//! `[N * windows, O]` is the result.

use super::padded;
use crate::Result;
use kiln_ir::{Dims, ValueId, Window};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;

/// The cotangent of weights `w_dims: [O, C, 1..]` from the input `x: [N, C, spatial..]` and the result's cotangent
/// `g: [N, O, spatial..]`.
pub(super) fn weights(
    b: &mut GraphBuilder,
    (x, g): (ValueId, ValueId),
    window: &Window,
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
    let (zero, mut sizes) = (b.size(0), rows);
    sizes.push(channels);
    let mut steps = vec![1];
    steps.extend(window.strides.iter().copied());
    steps.push(1);
    let x = b.slice(x, &vec![zero; rank], &sizes, &steps)?;
    let x = b.reshape(x, &[n_rows, channels])?;
    let x = b.transpose(x, &[1, 0])?;
    let product = b.matmul(x, g)?;

    // `[C, O] -> [O, C, 1..]`.
    let product = b.transpose(product, &[1, 0])?;
    Ok(b.reshape(product, w_dims)?)
}
