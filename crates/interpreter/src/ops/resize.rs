//! Resizing, axis by axis in `f64`, rounded once at the end; as defined by ONNX's `Resize`.
//!
//! Each output index of an axis is a weighted sum of a few input elements, its *taps*. A tap of weight 0 is not read, so
//! NaN and infinity do not propagate from unused elements.

mod taps;

use crate::context::{EvaluateContext, widened_floats};
use crate::fault::OpFault;
use kiln_ir::Resize;
use kiln_tensor::{DType, Tensor, bf16, f16};
use taps::{Tap, taps_of};

/// Resamples some axes.
pub(crate) fn resize(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    resize: &Resize,
) -> Result<Tensor, OpFault> {
    if resize.axes.len() != resize.sizes.len() || resize.axes.len() != resize.scales.len() {
        return Err(OpFault::malformed(
            "expected a size and a scale for each resized axis",
        ));
    }
    if let Some(axis) = resize.axes.iter().find(|&&axis| axis >= x.rank()) {
        return Err(OpFault::malformed(format!(
            "axis {axis} of a tensor of rank {}",
            x.rank()
        )));
    }
    let sizes = ctx.sizes("the size of a result", &resize.sizes)?;
    let mut shape = x.shape().to_vec();
    for (&axis, &size) in resize.axes.iter().zip(&sizes) {
        shape[axis] = size;
    }
    let mut result = Tensor::zeros(x.dtype(), &shape)?;
    if result.is_empty() {
        return Ok(result);
    }
    if x.is_empty() {
        return Err(OpFault::EmptyAxis {
            what: "resampling",
            operand: ctx.describe(0, x),
        });
    }
    let mut values = widened_floats(ctx.interrupt(), x)?;
    let mut shape = x.shape().to_vec();
    for ((&axis, &size), &scale) in resize.axes.iter().zip(&sizes).zip(&resize.scales) {
        let taps = taps_of(ctx, resize, shape[axis], size, scale)?;
        values = resample(ctx, &values, &shape, axis, &taps)?;
        shape[axis] = size;
    }
    match result.dtype() {
        DType::F64 => result.as_mut_slice::<f64>()?.copy_from_slice(&values),
        DType::F32 => ctx
            .interrupt()
            .narrow(result.as_mut_slice::<f32>()?, &values)?,
        DType::F16 => ctx
            .interrupt()
            .narrow(result.as_mut_slice::<f16>()?, &values)?,
        DType::BF16 => ctx
            .interrupt()
            .narrow(result.as_mut_slice::<bf16>()?, &values)?,
        other => {
            return Err(OpFault::malformed(format!(
                "expected floats, found {other}"
            )));
        }
    }
    Ok(result)
}

/// Resamples one axis: for each output index, the sum of its taps, over lines of the inner axes.
fn resample(
    ctx: &EvaluateContext<'_>,
    x: &[f64],
    shape: &[usize],
    axis: usize,
    taps: &[Vec<Tap>],
) -> Result<Vec<f64>, OpFault> {
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut result = ctx
        .interrupt()
        .filled(outer.saturating_mul(taps.len()).saturating_mul(inner), 0.0)?;
    let blocks = x.chunks_exact(shape[axis] * inner);
    for (block, out) in blocks.zip(result.chunks_exact_mut(taps.len() * inner)) {
        for (taps, line) in taps.iter().zip(out.chunks_exact_mut(inner)) {
            for tap in taps {
                ctx.work(inner)?;
                let from = &block[tap.index * inner..(tap.index + 1) * inner];
                for (sum, &element) in line.iter_mut().zip(from) {
                    *sum += tap.weight * element;
                }
            }
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests;
