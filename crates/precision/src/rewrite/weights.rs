//! Weights as integers with scales. Activations stay f32, or are i8 with a scale per row of a product: the factors of a
//! product are then floats with integer values, `matmul(f32(i8(x / s)), weights) * s`, which a backend may multiply as
//! integers.
//!
//! One scale per column is applied to the sums, which costs nothing: `matmul(x, f32(q - z)) * scale`. Scales of groups are
//! applied to the weights, where the kernel reads them. Four-bit codes are stored two per byte: byte `i` of a group of `g`
//! rows has the code of row `i` in its low bits, and that of row `i + g/2` in its high bits, so that both are read in order.

use super::integers::quantized_activations;
use super::{Activations, Narrowed, Rewritten, check_kind, finite_weights};
use crate::emit::Emit;
use crate::error::PrecisionError;
use crate::format::{Bits, WeightFormat};
use crate::groups::{Layout, Quantized, quantize};
use crate::product::{Kind, Product};
use kiln_ir::{Dims, Op, TensorType, ValueId};
use kiln_tensor::{DType, Tensor};
use smallvec::smallvec;

/// The code of zero in four bits without zero points: codes are stored as unsigned.
const CENTRE: i16 = 8;

pub(super) fn rewrite(
    emit: &mut Emit<'_, '_>,
    product: &Product,
    format: WeightFormat,
    activations: Activations,
) -> Rewritten {
    let found = check_kind(product.kind, format).and_then(|()| finite_weights(product));
    let (weights, shape) = match found {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let (narrow, scales, narrowed) = match product.kind {
        Kind::Conv => conv(emit, &weights, &shape)?,
        Kind::Matmul => matmul(emit, &weights, &shape, format)?,
    };
    let mut left = emit.rebuild.value(product.left);
    let mut row_scales = None;
    if activations == Activations::Int8 {
        let along = emit.ty(left).rank() - 1;
        let (codes, scales) = quantized_activations(emit, left, &[along])?;
        left = emit.cast(codes, DType::F32);
        row_scales = Some(scales);
    }
    let old = emit.rebuild.old();
    let (op, ty) = (old.op(product.op).op.clone(), old.tensor_ty(product.result));
    let Some(ty) = ty.cloned() else {
        unreachable!("a product is a tensor");
    };
    let mut result = emit.op(op, &[left, narrow], ty);
    for scales in [row_scales, scales].into_iter().flatten() {
        result = emit.map_like("mul", &[result, scales]);
    }
    emit.rebuild.map(product.result, result);
    Ok(Ok(narrowed))
}

/// Weights in the form in which they are read, the scales of their results if they are applied there, and the effects
/// of the rewrite.
type Parts = Result<(ValueId, Option<ValueId>, Narrowed), PrecisionError>;

/// `w: [O, ...]` with a scale per output channel.
fn conv(emit: &mut Emit<'_, '_>, weights: &[f32], shape: &[usize]) -> Parts {
    let (stored, scales, narrowed) = stored_channels(emit, weights, shape)?;
    Ok((emit.cast(stored, DType::F32), Some(scales), narrowed))
}

/// Codes of `w: [O, ...]` as i8, and their scales as they broadcast against `[N, O, ...]`.
pub(super) fn stored_channels(
    emit: &mut Emit<'_, '_>,
    weights: &[f32],
    shape: &[usize],
) -> Result<(ValueId, ValueId, Narrowed), PrecisionError> {
    let (codes, scales, error) = per_channel(weights, shape);
    let narrowed = Narrowed {
        bytes_after: codes.len() + scales.len() * size_of::<f32>(),
        weight_error: Some(error),
    };
    let stored = emit.constant(Tensor::from_slice::<i8>(shape, &codes))?;
    let mut sizes = vec![1; shape.len().saturating_sub(1)];
    sizes[0] = scales.len();
    let scales = emit.constant(Tensor::from_slice(&sizes, &scales))?;
    Ok((stored, scales, narrowed))
}

/// Centred codes of eight bits for weights whose outermost axis has a scale per entry.
fn per_channel(weights: &[f32], shape: &[usize]) -> (Vec<i8>, Vec<f32>, f64) {
    let channels = shape.first().copied().unwrap_or(1);
    let per = weights.len() / channels.max(1);
    // A channel is treated as a matrix of one column, so its elements are consecutive rows.
    let layout = Layout {
        batch: channels,
        rows: per,
        columns: 1,
        group: per,
    };
    let format = WeightFormat {
        bits: Bits::Eight,
        group: None,
        zero_points: false,
    };
    let quantized = quantize(weights, &layout, format);
    let codes = quantized.codes.iter().map(|&code| code as i8).collect();
    (codes, quantized.scales, quantized.error)
}

/// Centred codes of eight bits for `w: [batch.., K, N]` with a scale per column.
pub(super) fn per_column(weights: &[f32], shape: &[usize]) -> (Vec<i8>, Vec<f32>, f64) {
    let format = WeightFormat {
        bits: Bits::Eight,
        group: None,
        zero_points: false,
    };
    let quantized = quantize(weights, &layout(shape, format), format);
    let codes = quantized.codes.iter().map(|&code| code as i8).collect();
    (codes, quantized.scales, quantized.error)
}

/// `w: [batch.., K, N]`.
fn matmul(
    emit: &mut Emit<'_, '_>,
    weights: &[f32],
    shape: &[usize],
    format: WeightFormat,
) -> Parts {
    let layout = layout(shape, format);
    let quantized = quantize(weights, &layout, format);
    let groups = layout.groups();
    let batch = &shape[..shape.len() - 2];
    let columns = layout.columns;
    let sizes = |middle: &[usize]| -> Vec<usize> {
        let parts = batch.iter().chain(middle);
        parts.copied().chain([columns]).collect()
    };
    // A scale per group, which broadcasts along the axes of its codes.
    let per_group: &[usize] = match format.bits {
        Bits::Eight => &[groups, 1],
        Bits::Four => &[groups, 1, 1],
    };
    let (mut codes, code_bytes) = match format.bits {
        Bits::Eight => eight_bits(emit, &quantized, &layout, &sizes)?,
        Bits::Four => four_bits(emit, &quantized, &layout, &sizes)?,
    };
    let zero_bytes = match &quantized.zero_points {
        Some(zeros) => {
            let zeros: Vec<u8> = zeros.iter().map(|&zero| zero as u8).collect();
            let stored = emit.constant(Tensor::from_slice(&sizes(per_group), &zeros))?;
            let wide = emit.cast(stored, DType::F32);
            codes = emit.map_like("sub", &[codes, wide]);
            zeros.len()
        }
        None if format.bits == Bits::Four => {
            let centre = emit.number(f32::from(CENTRE))?;
            codes = emit.map_like("sub", &[codes, centre]);
            0
        }
        None => 0,
    };
    let scale_bytes = quantized.scales.len() * size_of::<f32>();
    let narrowed = Narrowed {
        bytes_after: code_bytes + zero_bytes + scale_bytes,
        weight_error: Some(quantized.error),
    };
    let scales = Tensor::from_slice(&sizes(per_group), &quantized.scales);
    let (per_column, scales) = match groups {
        1 => {
            let scales = scales.and_then(|scales| scales.reshape(&sizes(&[1])));
            (Some(emit.constant(scales)?), None)
        }
        _ => (None, Some(emit.constant(scales)?)),
    };
    if let Some(scales) = scales {
        codes = emit.map_like("mul", &[codes, scales]);
    }
    let rows = emit.reshape(codes, &sizes(&[layout.padded_rows()]));
    let rows = match layout.padded_rows() == layout.rows {
        true => rows,
        false => first_rows(emit, rows, &sizes(&[layout.rows])),
    };
    Ok((rows, per_column, narrowed))
}

fn layout(shape: &[usize], format: WeightFormat) -> Layout {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    let (rows, columns) = (matrix[0], matrix[1]);
    let whole = rows.next_multiple_of(2);
    let group = format.group.map_or(whole, |group| {
        usize::try_from(group.get()).map_or(whole, |group| group.min(whole))
    });
    Layout {
        batch: batch.iter().product(),
        rows,
        columns,
        // Eight-bit codes are not paired.
        group: match format.bits {
            Bits::Eight if group == whole => rows,
            _ => group,
        },
    }
}

/// Codes as f32 `[batch.., groups, group, N]`, and the number of bytes in which they are stored.
fn eight_bits(
    emit: &mut Emit<'_, '_>,
    quantized: &Quantized,
    layout: &Layout,
    sizes: &dyn Fn(&[usize]) -> Vec<usize>,
) -> Result<(ValueId, usize), PrecisionError> {
    let shape = sizes(&[layout.groups(), layout.group]);
    let codes = quantized.codes.iter();
    let stored = match quantized.zero_points {
        Some(_) => {
            let codes: Vec<u8> = codes.map(|&code| code as u8).collect();
            emit.constant(Tensor::from_slice(&shape, &codes))
        }
        None => {
            let codes: Vec<i8> = codes.map(|&code| code as i8).collect();
            emit.constant(Tensor::from_slice(&shape, &codes))
        }
    }?;
    Ok((emit.cast(stored, DType::F32), quantized.codes.len()))
}

/// The same from two codes per byte, `[batch.., groups, 2, group / 2, N]`.
fn four_bits(
    emit: &mut Emit<'_, '_>,
    quantized: &Quantized,
    layout: &Layout,
    sizes: &dyn Fn(&[usize]) -> Vec<usize>,
) -> Result<(ValueId, usize), PrecisionError> {
    let (groups, half, columns) = (layout.groups(), layout.group / 2, layout.columns);
    let centre = match quantized.zero_points {
        Some(_) => 0,
        None => CENTRE,
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(quantized.codes.len() / 2);
    for group in quantized.codes.chunks(layout.group * columns) {
        let (low, high) = group.split_at(half * columns);
        let pairs = low.iter().zip(high);
        bytes.extend(pairs.map(|(low, high)| ((low + centre) | (high + centre) << 4) as u8));
    }
    let n_bytes = bytes.len();
    let stored = emit.constant(Tensor::from_slice(&sizes(&[groups, 1, half]), &bytes))?;
    let shifts = emit.constant(Tensor::from_slice::<i32>(&[2, 1, 1], &[0, 4]))?;
    let mask = emit.constant(Tensor::from_slice::<i32>(&[], &[15]))?;
    let dims = emit.sizes(&sizes(&[groups, 2, half]));
    // Vectors have no shift of bytes.
    let stored = emit.cast(stored, DType::I32);
    let shifted = emit.map("shr", &[stored, shifts], dims.clone());
    let codes = emit.map("bit_and", &[shifted, mask], dims);
    let wide = emit.cast(codes, DType::F32);
    Ok((wide, n_bytes))
}

/// The rows of `x: [.., rows, N]` that are not padding.
fn first_rows(emit: &mut Emit<'_, '_>, x: ValueId, sizes: &[usize]) -> ValueId {
    let dims = emit.sizes(sizes);
    let starts: Dims = emit.sizes(&vec![0; sizes.len()]);
    let op = Op::Slice {
        starts,
        sizes: dims.clone(),
        steps: smallvec![1; sizes.len()],
    };
    let dtype = emit.ty(x).dtype;
    emit.op(op, &[x], TensorType::new(dtype, dims))
}
