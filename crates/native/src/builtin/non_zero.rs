//! The indices of nonzero elements, in row-major order. NaN is nonzero; -0 is zero.

use super::expect;
use super::interrupt::{Interrupt, PIECE};
use super::order::Ranked;
use crate::error::NativeError;
use kiln_backend::BuiltinOperand;
use kiln_tensor::{DType, row_major_strides};

/// Checks the operands: `indices` has a row per axis of `x` and any number of columns.
pub(crate) fn check(
    x: BuiltinOperand<'_>,
    indices: BuiltinOperand<'_>,
    count: BuiltinOperand<'_>,
) -> Result<(), NativeError> {
    let capacity = indices.shape.last().copied().unwrap_or(0);
    let shape = [x.shape.len(), capacity];
    expect("the indices of non-zero", indices, DType::I64, &shape)?;
    expect("the count of non-zero", count, DType::I64, &[])
}

/// Writes an index per axis for each element found, followed by zeros; returns the number found.
pub(crate) fn run<T: Ranked>(
    x: &[T],
    shape: &[usize],
    indices: &mut [i64],
    interrupt: Interrupt<'_>,
) -> Result<i64, NativeError> {
    let mut found = 0;
    for piece in x.chunks(PIECE) {
        if interrupt.check().is_err() {
            return Ok(0);
        }
        found += piece.iter().filter(|element| !element.is_zero()).count();
    }
    let capacity = indices.len() / shape.len().max(1);
    // A scalar has no indices, so that any number of them fits.
    if found > capacity && !shape.is_empty() {
        return Err(NativeError::mismatch(
            "the indices of non-zero",
            format_args!("room for {found}"),
            capacity,
        ));
    }
    for piece in indices.chunks_mut(16 * PIECE) {
        if interrupt.check().is_err() {
            return Ok(0);
        }
        piece.fill(0);
    }
    let strides = row_major_strides(shape);
    let places = x
        .iter()
        .enumerate()
        .filter(|(_, element)| !element.is_zero());
    for (column, (at, _)) in places.enumerate() {
        if column.is_multiple_of(PIECE) && interrupt.check().is_err() {
            return Ok(0);
        }
        for (axis, (&size, &stride)) in shape.iter().zip(&strides).enumerate() {
            indices[axis * capacity + column] = (at / stride.unsigned_abs() % size) as i64;
        }
    }
    Ok(found as i64)
}
