//! A constant laid out anew, once, as a kernel wants to read it.
//!
//! The packed array is row-major over the axes of the specification. An axis that is cut into
//! blocks has zeros behind its end, where the last block is not full.

use super::host_memory::HostMemory;
use super::scratch::AlignedBytes;
use crate::error::NativeError;
use kiln_kernel::{PackAxis, PackSpec};
use kiln_tensor::{Tensor, element_count};

/// The packed elements.
pub(crate) fn pack(tensor: &Tensor, spec: &PackSpec) -> Result<HostMemory, NativeError> {
    let tensor = tensor.contiguous()?;
    let axes = packed_axes(tensor.shape(), spec)?;
    let shape: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
    let size = tensor.dtype().size_in_bytes();
    let bytes = element_count(tensor.dtype(), &shape)? * size;
    let mut packed = AlignedBytes::zeroed(bytes)?;
    let (from, to) = (tensor.as_bytes()?, packed.as_mut_slice());
    match size {
        1 => copy::<1>(tensor.shape(), &axes, from, to),
        2 => copy::<2>(tensor.shape(), &axes, from, to),
        4 => copy::<4>(tensor.shape(), &axes, from, to),
        _ => copy::<8>(tensor.shape(), &axes, from, to),
    }
    Ok(HostMemory::own(packed))
}

/// An axis of the packed array.
#[derive(Debug, Clone, Copy)]
struct PackedAxis {
    /// How many places it has.
    size: usize,
    /// The axis of the tensor that it goes along.
    axis: usize,
    /// How far one place goes along that axis.
    step: usize,
}

/// The axes, checked to cover each axis of the tensor once: whole, or as blocks and what is inside.
fn packed_axes(shape: &[usize], spec: &PackSpec) -> Result<Vec<PackedAxis>, NativeError> {
    let refuse = |expected: &str| {
        Err(NativeError::mismatch(
            format!("the packing of buffer {}", spec.buffer),
            expected,
            format_args!("{:?} of shape {shape:?}", spec.axes),
        ))
    };
    let (mut outer, mut inner) = (vec![None; shape.len()], vec![None; shape.len()]);
    let mut axes = Vec::with_capacity(spec.axes.len());
    for &packed in &spec.axes {
        let (axis, block) = match packed {
            PackAxis::Whole(axis) => (axis, 1),
            PackAxis::Outer { axis, block } | PackAxis::Inner { axis, block } => (axis, block),
        };
        let Some(&size) = shape.get(axis) else {
            return refuse("axes of the operand");
        };
        if block == 0 {
            return refuse("blocks of at least one element");
        }
        // A whole axis is one block of everything, so that both parts are there.
        let parts = match packed {
            PackAxis::Whole(_) => [outer[axis].replace(0), inner[axis].replace(0)],
            PackAxis::Outer { .. } => [outer[axis].replace(block), None],
            PackAxis::Inner { .. } => [None, inner[axis].replace(block)],
        };
        if parts != [None, None] {
            return refuse("each axis once");
        }
        axes.push(match packed {
            PackAxis::Whole(_) => PackedAxis {
                size,
                axis,
                step: 1,
            },
            PackAxis::Outer { .. } => PackedAxis {
                size: size.div_ceil(block),
                axis,
                step: block,
            },
            PackAxis::Inner { .. } => PackedAxis {
                size: block,
                axis,
                step: 1,
            },
        });
    }
    if outer != inner || outer.contains(&None) {
        return refuse("every axis, whole or as blocks with what is inside");
    }
    Ok(axes)
}

/// Copies elements of `N` bytes. `to` holds zeros.
fn copy<const N: usize>(shape: &[usize], axes: &[PackedAxis], from: &[u8], to: &mut [u8]) {
    let Some((last, outer)) = axes.split_last() else {
        to.copy_from_slice(from);
        return;
    };
    let (from, _) = from.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<N>();
    if to.is_empty() {
        return;
    }
    let strides = kiln_tensor::row_major_strides(shape);
    let stride = |axis: usize| strides[axis].unsigned_abs();
    let mut index = vec![0; outer.len()];
    let mut position = vec![0; shape.len()];
    for row in to.chunks_exact_mut(last.size) {
        position.fill(0);
        for (axis, at) in outer.iter().zip(&index) {
            position[axis.axis] += at * axis.step;
        }
        let others_inside = (0..shape.len()).all(|a| a == last.axis || position[a] < shape[a]);
        let left = shape[last.axis].saturating_sub(position[last.axis]);
        let inside = left.div_ceil(last.step).min(row.len());
        if others_inside && inside > 0 {
            let first = position
                .iter()
                .enumerate()
                .map(|(a, at)| at * stride(a))
                .sum::<usize>();
            let step = last.step * stride(last.axis);
            if step == 1 {
                row[..inside].copy_from_slice(&from[first..first + inside]);
            } else {
                let elements = from[first..].iter().step_by(step.max(1));
                for (place, element) in row[..inside].iter_mut().zip(elements) {
                    *place = *element;
                }
            }
        }
        advance(&mut index, outer);
    }
}

/// The next index, the last axis fastest.
fn advance(index: &mut [usize], axes: &[PackedAxis]) {
    for (at, axis) in index.iter_mut().zip(axes).rev() {
        *at += 1;
        if *at < axis.size {
            return;
        }
        *at = 0;
    }
}
