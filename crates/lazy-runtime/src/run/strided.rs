//! Tensors whose elements lie apart, as the host sees them: parts of something larger.

use kiln_kernel::{Builtin, BuiltinOperand, MemorySlice};
use kiln_tensor::{DType, Offsets, Tensor};

use super::Stop;
use super::walk::Run;
use crate::error::RuntimeError;
use crate::plan::{Frame, PlacedTensor, TensorPlace};

impl Run<'_> {
    /// The elements of a tensor that lie `strides` apart, one after another.
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
        let gathered = memory.as_bytes().and_then(|bytes| {
            Tensor::from_bytes(dtype, shape, &picked(bytes, dtype, shape, strides))
        });
        gathered.map_err(RuntimeError::tensor(what))
    }

    /// Puts a tensor's elements where they lie `strides` apart.
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
        // A copy, so that nobody holds the memory when it is written to.
        let mut bytes = {
            let whole = executor.download(placed.memory, placed.offset, place.dtype, &flat);
            let whole = whole.map_err(RuntimeError::execute(what))?;
            whole
                .as_bytes()
                .map_err(RuntimeError::tensor(what))?
                .to_vec()
        };
        let tensor = tensor.contiguous().map_err(RuntimeError::tensor(what))?;
        let from = tensor.as_bytes().map_err(RuntimeError::tensor(what))?;
        let width = place.dtype.size_in_bytes();
        for (element, offset) in
            from.chunks_exact(width)
                .zip(Offsets::new(&place.shape, strides, 0))
        {
            if let Some(to) = bytes.get_mut(offset * width..(offset + 1) * width) {
                to.copy_from_slice(element);
            }
        }
        let whole =
            Tensor::from_bytes(place.dtype, &flat, &bytes).map_err(RuntimeError::tensor(what))?;
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
        let copied = self.state.execution.run_builtin(
            &Builtin::Copy,
            &[(from, what_it_is)],
            &[(to, what_it_is)],
        );
        copied.map_err(RuntimeError::execute(what))?;
        Ok(())
    }
}

/// Elements from the first to the last.
fn span(shape: &[usize], strides: &[isize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let reach = shape.iter().zip(strides);
    let reach = reach.map(|(&size, &stride)| (size - 1).saturating_mul(stride.unsigned_abs()));
    reach.fold(1, usize::saturating_add)
}

fn picked(bytes: &[u8], dtype: DType, shape: &[usize], strides: &[isize]) -> Vec<u8> {
    let width = dtype.size_in_bytes();
    let elements = Offsets::new(shape, strides, 0)
        .filter_map(|offset| bytes.get(offset * width..(offset + 1) * width));
    elements.flatten().copied().collect()
}
