//! Strided tensors on the host: views into larger memory.

use kiln_backend::{Builtin, BuiltinOperand, MemorySlice};
use kiln_tensor::{DType, Offsets, Tensor};

use super::Stop;
use super::walk::Run;
use crate::error::RuntimeError;
use crate::plan::{Frame, PlacedTensor, TensorPlace};

impl Run<'_> {
    /// Gathers the elements of a tensor that are `strides` apart.
    pub(super) fn gather(
        &self,
        placed: PlacedTensor<'_>,
        strides: &[isize],
        what: &str,
    ) -> Result<Tensor, RuntimeError> {
        let (dtype, shape) = (placed.dtype, placed.shape);
        let flat = [span(shape, strides)];
        let executor = self.runtime.executor();
        let memory = executor.download(placed.memory, placed.offset, dtype, &flat);
        let memory = memory.map_err(RuntimeError::execute(what))?;
        self.copied(what, |goes_on| {
            let from = memory.as_bytes()?;
            Tensor::filled_by(dtype, shape, |to| {
                pick(from, to, (dtype, shape, strides), goes_on);
                Ok(())
            })
        })
    }

    /// Scatters a tensor's elements `strides` apart.
    pub(super) fn scatter(
        &mut self,
        tensor: &Tensor,
        place: &TensorPlace,
        strides: &[isize],
        frame: &Frame,
        what: &str,
    ) -> Result<(), Stop> {
        let flat = [span(&place.shape, strides)];
        let placed = frame.tensor(place)?;
        let executor = self.runtime.executor();
        let tensor = self.copied(what, |goes_on| tensor.dense_while(goes_on))?;
        // A copy, so that the memory has no other handle when it is written to.
        let whole = {
            let around = executor.download(placed.memory, placed.offset, place.dtype, &flat);
            let around = around.map_err(RuntimeError::execute(what))?;
            self.copied(what, |goes_on| {
                let (elements, around) = (tensor.as_bytes()?, around.as_bytes()?);
                Tensor::filled_by(place.dtype, &flat, |to| {
                    for (to, around) in to.chunks_mut(PIECE).zip(around.chunks(PIECE)) {
                        if goes_on(around.len()) {
                            to.copy_from_slice(around);
                        }
                    }
                    put(elements, to, (place.dtype, &place.shape, strides), goes_on);
                    Ok(())
                })
            })?
        };
        let uploaded = executor
            .upload(&whole)
            .map_err(RuntimeError::execute(what))?;
        let what_it_is = BuiltinOperand {
            dtype: place.dtype,
            shape: &flat,
        };
        let from = MemorySlice {
            memory: &uploaded,
            offset: 0,
            bytes: whole.byte_len(),
        };
        let to = frame.slice(&place.operand)?;
        let (from, to) = ([(from, what_it_is)], [(to, what_it_is)]);
        Ok(self.run_builtin(what, &Builtin::Copy, &from, &to)?)
    }
}

/// The number of elements from the first to the last.
fn span(shape: &[usize], strides: &[isize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let reach = shape.iter().zip(strides);
    let reach = reach.map(|(&size, &stride)| (size - 1).saturating_mul(stride.unsigned_abs()));
    reach.fold(1, usize::saturating_add)
}

/// The number of elements between two cancellation checks.
const PIECE: usize = 1 << 16;

/// The type and layout of elements.
type Strided<'a> = (DType, &'a [usize], &'a [isize]);

/// Gathers the elements from their memory.
fn pick(
    from: &[u8],
    to: &mut [u8],
    (dtype, shape, strides): Strided<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) {
    let width = dtype.size_in_bytes();
    let mut offsets = Offsets::new(shape, strides, 0);
    for to in to.chunks_mut(PIECE * width) {
        if !goes_on(to.len() / width) {
            return;
        }
        for (to, offset) in to.chunks_exact_mut(width).zip(&mut offsets) {
            if let Some(element) = from.get(offset * width..(offset + 1) * width) {
                to.copy_from_slice(element);
            }
        }
    }
}

/// Scatters the elements into their memory.
fn put(
    from: &[u8],
    to: &mut [u8],
    (dtype, shape, strides): Strided<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) {
    let width = dtype.size_in_bytes();
    let mut offsets = Offsets::new(shape, strides, 0);
    for from in from.chunks(PIECE * width) {
        if !goes_on(from.len() / width) {
            return;
        }
        for (element, offset) in from.chunks_exact(width).zip(&mut offsets) {
            if let Some(to) = to.get_mut(offset * width..(offset + 1) * width) {
                to.copy_from_slice(element);
            }
        }
    }
}
