//! Concatenating tensors along an axis.

use crate::error::excerpt;
use crate::{Tensor, TensorError, element_count};

/// Bytes copied between two cancellation checks.
const ASKED: usize = 1 << 20;

impl Tensor {
    /// Concatenates the operands along `axis`; dtypes and all other dims must agree.
    pub fn concat(operands: &[&Tensor], axis: usize) -> Result<Tensor, TensorError> {
        Tensor::concat_while(operands, axis, &mut |_| true)
    }

    /// As [`concat`](Tensor::concat), but calls the callback before each copied piece, with its number of bytes, at
    /// most a MiB; the callback returns whether to continue. If it returns false, the rest of the result is zeros.
    pub fn concat_while(
        operands: &[&Tensor],
        axis: usize,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Tensor, TensorError> {
        let Some((first, _)) = operands.split_first() else {
            return Err(TensorError::NothingToConcat);
        };
        let mut shape = first.shape().to_vec();
        if axis >= shape.len() {
            return Err(TensorError::AxisOutOfRange {
                axis,
                rank: shape.len(),
            });
        }
        let mut total = 0usize;
        for (position, operand) in operands.iter().enumerate() {
            if operand.dtype() != first.dtype() {
                return Err(TensorError::DTypeMismatch {
                    expected: first.dtype(),
                    found: operand.dtype(),
                });
            }
            let agrees = operand.rank() == first.rank()
                && operand
                    .shape()
                    .iter()
                    .zip(first.shape())
                    .enumerate()
                    .all(|(i, (a, b))| i == axis || a == b);
            if !agrees {
                return Err(TensorError::ConcatMismatch {
                    operand: position,
                    axis,
                    expected: excerpt(first.shape()),
                    found: excerpt(operand.shape()),
                });
            }
            // A sum beyond `usize` is rejected below: it also exceeds the size limit.
            total = total.saturating_add(operand.shape().get(axis).copied().unwrap_or(0));
        }
        if let Some(dim) = shape.get_mut(axis) {
            *dim = total;
        }
        element_count(first.dtype(), &shape)?;

        // Each operand contributes, for each index of the outer axes, one piece of bytes.
        let n_pieces: usize = shape.iter().take(axis).product();
        let mut pieces = Vec::with_capacity(operands.len());
        for operand in operands {
            pieces.push(operand.contiguous()?);
        }
        let mut joined = Tensor::zeros(first.dtype(), &shape)?;
        if joined.is_empty() {
            return Ok(joined);
        }
        let mut out = joined.bytes_mut()?;
        for index in 0..n_pieces {
            for piece in &pieces {
                let size = piece.byte_len() / n_pieces;
                let (to, rest) = std::mem::take(&mut out).split_at_mut(size);
                let from = &piece.as_bytes()?[index * size..(index + 1) * size];
                for (to, from) in to.chunks_mut(ASKED).zip(from.chunks(ASKED)) {
                    if !goes_on(from.len()) {
                        return Ok(joined);
                    }
                    to.copy_from_slice(from);
                }
                out = rest;
            }
        }
        Ok(joined)
    }
}
