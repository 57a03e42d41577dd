//! Downloads tensors from a device's memory to the host.

use kiln_tensor::Tensor;

use super::Value;
use super::walk::Run;
use crate::error::RuntimeError;
use crate::plan::{Frame, PlacedTensor, TensorPlace};

impl Run<'_> {
    /// A tensor of a frame, wherever it goes next.
    pub(super) fn value(&self, frame: &Frame, place: &TensorPlace) -> Result<Value, RuntimeError> {
        let (memory, offset) = frame.memory(&place.operand)?;
        Ok(Value {
            memory: memory.clone(),
            offset,
            dtype: place.dtype,
            shape: place.shape.clone(),
            order: place.order.clone(),
            apart: place.apart.clone(),
        })
    }

    /// Downloads a tensor of a device into one of the host: in place if it has its dtype and shape.
    pub(super) fn download_into(
        &self,
        placed: PlacedTensor<'_>,
        output: &mut Tensor,
    ) -> Result<(), Box<RuntimeError>> {
        let what = "an output";
        let fits = placed.order.is_none()
            && placed.apart.is_none()
            && output.dtype() == placed.dtype
            && output.shape() == placed.shape;
        if !fits {
            let tensor = self.download(placed, what)?.copied();
            *output = tensor.map_err(RuntimeError::tensor(what))?;
            return Ok(());
        }
        let executor = self.runtime.executor();
        let downloaded = executor.download_into(placed.memory, placed.offset, output);
        Ok(downloaded.map_err(RuntimeError::execute(what))?)
    }

    /// A tensor of a device as one of the host.
    pub(super) fn download(
        &self,
        placed: PlacedTensor<'_>,
        what: &str,
    ) -> Result<Tensor, RuntimeError> {
        if let Some(strides) = placed.apart {
            return self.gather(placed, strides, what);
        }
        let executor = self.runtime.executor();
        let download = |shape: &[usize]| {
            let tensor = executor.download(placed.memory, placed.offset, placed.dtype, shape);
            tensor.map_err(RuntimeError::execute(what))
        };
        match placed.order {
            None => download(placed.shape),
            Some(order) => {
                let tensor = order.undo(&download(&order.shape(placed.shape))?);
                tensor.map_err(RuntimeError::tensor(what))
            }
        }
    }
}
