//! The indices of nonzero elements, in row-major order. NaN is nonzero; -0 is zero.

use super::expect;
use super::interrupt::{Interrupt, PIECE, Stopped};
use super::order::Ranked;
use crate::error::NativeError;
use kiln_backend::BuiltinOperand;
use kiln_tensor::DType;

/// The number of elements whose positions are found at a time.
const CHUNK: usize = 256;

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
    // A scalar has no indices, so any number of columns fits.
    if found > capacity && !shape.is_empty() {
        return Err(NativeError::mismatch(
            "the indices of non-zero",
            format_args!("room for {found}"),
            capacity,
        ));
    }
    let mut places = Places::new(indices, shape);
    let mut coordinates = vec![0; shape.len().saturating_sub(1)];
    let inner = shape.last().copied().unwrap_or(1).max(1);
    for row in x.chunks(inner) {
        if places.add_row(row, &coordinates, interrupt).is_err() {
            return Ok(0);
        }
        advance(&mut coordinates, shape);
    }
    places.clear_rest(interrupt);
    Ok(found as i64)
}

/// The next row's coordinates along all axes except the last.
fn advance(coordinates: &mut [usize], shape: &[usize]) {
    for (at, &size) in coordinates.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < size {
            return;
        }
        *at = 0;
    }
}

/// The number of columns written so far.
struct Places<'a> {
    /// A row of columns per axis.
    indices: &'a mut [i64],
    rank: usize,
    capacity: usize,
    n_written: usize,
    /// Elements since the last check of the signal.
    n_unchecked: usize,
}

impl<'a> Places<'a> {
    fn new(indices: &'a mut [i64], shape: &[usize]) -> Self {
        let rank = shape.len();
        Self {
            capacity: indices.len() / rank.max(1),
            indices,
            rank,
            n_written: 0,
            n_unchecked: 0,
        }
    }

    /// The indices along an axis, of all columns.
    fn axis(&mut self, axis: usize) -> &mut [i64] {
        &mut self.indices[axis * self.capacity..][..self.capacity]
    }

    /// Adds the nonzero elements of a row; its coordinates are those along all axes except the last.
    fn add_row<T: Ranked>(
        &mut self,
        row: &[T],
        coordinates: &[usize],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Stopped> {
        let Some(last) = self.rank.checked_sub(1) else {
            return Ok(());
        };
        let start = self.n_written;
        for (chunk, elements) in row.chunks(CHUNK).enumerate() {
            self.n_unchecked += elements.len();
            if self.n_unchecked > PIECE {
                self.n_unchecked = 0;
                interrupt.check()?;
            }
            // Every position is written, and kept if its element is nonzero, so that no branch depends on the data.
            let (mut found, mut n_found) = ([0; CHUNK], 0);
            for (at, element) in elements.iter().enumerate() {
                found[n_found % CHUNK] = (chunk * CHUNK + at) as i64;
                n_found += usize::from(!element.is_zero());
            }
            let written = self.n_written;
            self.axis(last)[written..written + n_found].copy_from_slice(&found[..n_found]);
            self.n_written += n_found;
        }
        let end = self.n_written;
        for (axis, &at) in coordinates.iter().enumerate() {
            self.axis(axis)[start..end].fill(at as i64);
        }
        Ok(())
    }

    /// Clears the columns for which nothing was found.
    fn clear_rest(mut self, interrupt: Interrupt<'_>) {
        let written = self.n_written;
        for axis in 0..self.rank {
            for piece in self.axis(axis)[written..].chunks_mut(16 * PIECE) {
                if interrupt.check().is_err() {
                    return;
                }
                piece.fill(0);
            }
        }
    }
}
