//! Products of integers: weights are quantised ahead of time, activations by each call, and sums are in i32.
//!
//! `x` is scaled by the largest magnitude of each row (of a convolution, of each sample) to [-127, 127] and rounded, so the
//! sums are exact: at most `K * 127 * 127`, which i32 holds for `K` below 133,000.

use super::weights::{per_column, stored_channels};
use super::{Narrowed, Rewritten, finite_weights};
use crate::emit::Emit;
use crate::error::PrecisionError;
use crate::product::{Kind, Product};
use crate::report::Reason;
use kiln_ir::{Dims, Op, ReduceFunction, TensorType, ValueId};
use kiln_tensor::{DType, Tensor};

/// The largest code.
const LARGEST: f32 = 127.0;
/// Magnitudes below this are rounded to zero: their scale would not be a normal number.
const SMALLEST: f32 = 1e-30;
/// The maximum number of products of a sum.
const DEPTH_LIMIT: usize = (i32::MAX / (127 * 127)) as usize;

pub(super) fn rewrite(emit: &mut Emit<'_, '_>, product: &Product) -> Rewritten {
    let (weights, shape) = match finite_weights(product) {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let depth = match product.kind {
        Kind::Conv => shape.iter().skip(1).product::<usize>(),
        Kind::Matmul => shape[shape.len() - 2],
    };
    if depth > DEPTH_LIMIT {
        return Ok(Err(Reason::TooDeep));
    }
    let x = emit.rebuild.value(product.left);
    let rank = emit.ty(x).rank();
    let axes: Vec<usize> = match product.kind {
        Kind::Conv => (1..rank).collect(),
        Kind::Matmul => vec![rank - 1],
    };
    let (codes, x_scale) = quantized_activations(emit, x, &axes)?;
    let (stored, w_scale, narrowed) = match product.kind {
        Kind::Conv => stored_channels(emit, &weights, &shape)?,
        Kind::Matmul => matmul_weights(emit, &weights, &shape)?,
    };
    let old = emit.rebuild.old();
    let (op, ty) = (old.op(product.op).op.clone(), old.tensor_ty(product.result));
    let Some(ty) = ty.cloned() else {
        unreachable!("a product is a tensor");
    };
    let op = match op {
        Op::Matmul { .. } => Op::Matmul { out: DType::I32 },
        Op::Conv { window, groups, .. } => Op::Conv {
            window,
            groups,
            out: DType::I32,
        },
        other => other,
    };
    let sums = TensorType {
        dtype: DType::I32,
        ..ty
    };
    let sum = emit.op(op, &[codes, stored], sums);
    let wide = emit.cast(sum, DType::F32);
    let scaled = emit.map_like("mul", &[wide, x_scale]);
    let result = emit.map_like("mul", &[scaled, w_scale]);
    emit.rebuild.map(product.result, result);
    Ok(Ok(narrowed))
}

/// Codes of `x` as i8, and the scale of each group of elements along the axes, which are kept with size 1.
pub(super) fn quantized_activations(
    emit: &mut Emit<'_, '_>,
    x: ValueId,
    axes: &[usize],
) -> Result<(ValueId, ValueId), PrecisionError> {
    let ty = emit.ty(x);
    let one = emit.sizes(&[1])[0];
    let mut dims: Dims = ty.dims.clone();
    for &axis in axes {
        dims[axis] = one;
    }
    let magnitudes = emit.map_like("abs", &[x]);
    let op = Op::Reduce {
        function: ReduceFunction::Max,
        axes: axes.iter().copied().collect(),
        keep_dims: true,
    };
    let largest = emit.op(op, &[magnitudes], TensorType::new(DType::F32, dims));
    let smallest = emit.number(SMALLEST)?;
    let largest = emit.map_like("max", &[largest, smallest]);
    let codes = emit.number(LARGEST)?;
    let scale = emit.map_like("div", &[largest, codes]);
    let steps = emit.map_like("div", &[x, scale]);
    let steps = emit.map_like("round_even", &[steps]);
    Ok((emit.cast(steps, DType::I8), scale))
}

type Parts = Result<(ValueId, ValueId, Narrowed), PrecisionError>;

fn matmul_weights(emit: &mut Emit<'_, '_>, weights: &[f32], shape: &[usize]) -> Parts {
    let (codes, scales, error) = per_column(weights, shape);
    let narrowed = Narrowed {
        bytes_after: codes.len() + scales.len() * size_of::<f32>(),
        weight_error: Some(error),
    };
    let stored = emit.constant(Tensor::from_slice::<i8>(shape, &codes))?;
    let mut sizes = shape.to_vec();
    sizes[shape.len() - 2] = 1;
    let scales = emit.constant(Tensor::from_slice(&sizes, &scales))?;
    Ok((stored, scales, narrowed))
}
