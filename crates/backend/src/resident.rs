//! Outputs that stay in the memory of their device: [`Resident`].
//!
//! A resident tensor is used like any other. The host's first access to its elements downloads them, once; a call on
//! the same device reads them in place. The tensor keeps its memory from being reused, and keeps the executor that
//! downloads it alive, so it outlives its runtime. Each executor tracks the ownership of its memory.

use std::fmt;
use std::sync::Arc;

use kiln_tensor::{DType, Tensor, TensorError, element_count};

use crate::execute::{KernelExecutor, Memory, MemorySlice};

/// The owner of the elements of a tensor that is in a device's memory.
///
/// ```
/// use std::sync::Arc;
///
/// use kiln_backend::{KernelExecutor, Resident};
/// use kiln_tensor::DType;
///
/// # fn example(executor: Arc<dyn KernelExecutor>) -> Result<(), Box<dyn std::error::Error>> {
/// let memory = executor.alloc(64)?;
/// // After an execution wrote it:
/// let tensor = Resident::tensor(&executor, &memory, 0, DType::F32, &[4, 4])?;
/// let row = tensor.narrow(0, 2, 1)?;
/// assert_eq!(Resident::place_of(&row).map(|slice| slice.offset), Some(32));
/// # Ok(())
/// # }
/// ```
pub struct Resident {
    executor: Arc<dyn KernelExecutor>,
    memory: Memory,
    /// Bytes from the memory's start.
    offset: usize,
}

impl Resident {
    /// A tensor whose elements are in `memory`, beginning at a byte offset, in row-major order, as finished executions
    /// left them. Reading them downloads them; a failed download is a [`TensorError::Deferred`] of an
    /// [`ExecuteError`](crate::ExecuteError), and the next read tries again.
    ///
    /// # Errors
    /// When the elements are not within the memory.
    pub fn tensor(
        executor: &Arc<dyn KernelExecutor>,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, TensorError> {
        let len = element_count(dtype, shape)?;
        let expected = len * dtype.size_in_bytes();
        let found = memory.bytes().saturating_sub(offset);
        if expected > found {
            return Err(TensorError::LengthMismatch {
                expected,
                found,
                unit: "bytes",
            });
        }
        let resident = Arc::new(Self {
            executor: Arc::clone(executor),
            memory: memory.clone(),
            offset,
        });
        Tensor::resident(dtype, shape, resident, move |resident: &Self| {
            resident.download(dtype, len)
        })
    }

    /// The place of a tensor's elements, if they are in the memory of any device, in row-major order.
    pub fn place_of(tensor: &Tensor) -> Option<MemorySlice<'_>> {
        let (resident, first) = tensor.owner::<Self>()?;
        Some(MemorySlice {
            memory: &resident.memory,
            offset: resident.offset + first,
            bytes: tensor.byte_len(),
        })
    }

    fn download(&self, dtype: DType, len: usize) -> Result<Tensor, TensorError> {
        let tensor = self
            .executor
            .download(&self.memory, self.offset, dtype, &[len]);
        tensor.map_err(|error| TensorError::Deferred(Box::new(error)))
    }
}

impl fmt::Debug for Resident {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Resident")
            .field("device", &self.executor.device())
            .field("memory", &self.memory)
            .field("offset", &self.offset)
            .finish()
    }
}
