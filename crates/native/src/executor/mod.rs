//! The CPU as a device: its memory is host memory, its kernels are loaded code, and its threads are the pool's.

mod caches;
mod execution;
mod host_memory;
mod kept;
mod kernel;
mod memory_pool;
mod phase_job;
mod rented;
mod scratch;
mod sync;

use crate::error::NativeError;
use execution::NativeExecution;
use kernel::NativeKernel;
use kiln_backend::{
    Artifact, CallerOnly, ExecuteError, Execution, KernelExecutor, LoadedKernel, Memory,
    MemoryLimits, MemoryPool, PackSpec, TaskPool,
};
use kiln_tensor::{DType, Tensor};
use memory_pool::HostMemoryPool;
use std::fmt;
use std::sync::Arc;

pub(crate) use host_memory::{HostMemory, place_of};
#[cfg(all(test, feature = "guard-pages"))]
pub(crate) use scratch::AlignedBytes;

/// A round number: lending was measured to make a tiny call 0.2 us longer, and to make calls with outputs of megabytes
/// shorter.
const LENDS_FROM: usize = 16 << 10;

/// The CPU's executor.
///
/// Memory is that of the host: uploading a row-major tensor does not copy, and neither does downloading. Released
/// memory is kept for later calls, up to a limit, by default half a GiB. While a tensor made by
/// [`download`](KernelExecutor::download) lives, launches that would write to its memory are rejected.
#[derive(Clone)]
pub struct NativeExecutor {
    caches: [usize; 3],
    memory: HostMemoryPool,
    pool: Arc<dyn TaskPool>,
}

impl NativeExecutor {
    /// The executor for this machine, which runs everything on the calling thread.
    pub fn new() -> Self {
        Self {
            caches: caches::of_this_machine(),
            memory: HostMemoryPool::new(MemoryLimits::DEFAULT),
            pool: Arc::new(CallerOnly),
        }
    }

    /// Sets the memory limits.
    #[must_use]
    pub fn with_memory_limits(self, limits: MemoryLimits) -> Self {
        let memory = HostMemoryPool::new(limits);
        Self { memory, ..self }
    }

    /// Sets the threads that share the tasks of launches.
    #[must_use]
    pub fn with_pool(self, pool: Arc<dyn TaskPool>) -> Self {
        Self { pool, ..self }
    }
}

impl fmt::Debug for NativeExecutor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NativeExecutor")
            .field("caches", &self.caches)
            .field("threads", &self.pool.threads())
            .finish_non_exhaustive()
    }
}

impl Default for NativeExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl KernelExecutor for NativeExecutor {
    fn device(&self) -> String {
        "cpu".to_owned()
    }

    fn caches(&self) -> [usize; 3] {
        self.caches
    }

    fn parallelism(&self) -> usize {
        self.pool.threads().max(1)
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        let kernel = NativeKernel::load(artifact)?;
        tracing::debug!(
            kernel = artifact.kernel,
            bytes = kernel.bytes(),
            "native.load"
        );
        Ok(LoadedKernel::new(Arc::new(kernel)))
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        self.memory.rent(bytes)
    }

    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        Some(&self.memory)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        Ok(memory(HostMemory::of_tensor(tensor)?))
    }

    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        match (tensor, memory.parts_mut::<HostMemory>()) {
            (Some(tensor), Some((host, bytes))) => {
                host.become_tensor(tensor)?;
                *bytes = host.bytes();
            }
            (None, Some((host, bytes))) => {
                host.become_nothing();
                *bytes = 0;
            }
            // There are other handles.
            (Some(tensor), None) => *memory = self.upload(tensor)?,
            (None, None) => *memory = self::memory(HostMemory::nothing()),
        }
        Ok(())
    }

    fn lends_from(&self) -> usize {
        LENDS_FROM
    }

    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        match HostMemory::lent(tensor) {
            Ok(host) => {
                match memory.parts_mut::<HostMemory>() {
                    Some((before, bytes)) => {
                        *bytes = host.bytes();
                        *before = host;
                    }
                    None => *memory = self::memory(host),
                }
                None
            }
            Err(tensor) => Some(tensor),
        }
    }

    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        self.lend(tensor, memory)
    }

    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let (host, bytes) = memory.parts_mut::<HostMemory>()?;
        let lent = host.take_lent()?;
        *bytes = host.bytes();
        Tensor::of_exclusive(dtype, shape, lent).ok()
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        let packed = spec.apply(tensor).map_err(NativeError::from)?;
        Ok(memory(HostMemory::of_tensor(&packed)?))
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        Ok(download(memory, offset, dtype, shape)?)
    }

    fn download_into(
        &self,
        memory: &Memory,
        offset: usize,
        tensor: &mut Tensor,
    ) -> Result<(), ExecuteError> {
        let Some(host) = memory.downcast::<HostMemory>() else {
            return Err(host_memory::of_another_executor("memory to download").into());
        };
        Ok(host_memory::copy_into(host, offset, tensor)?)
    }

    fn begin(&self) -> Box<dyn Execution> {
        let pool = Arc::clone(&self.pool);
        Box::new(NativeExecution::new(pool, &self.memory))
    }
}

fn memory(memory: HostMemory) -> Memory {
    let bytes = memory.bytes();
    Memory::new(Arc::new(memory), bytes)
}

fn download(
    memory: &Memory,
    offset: usize,
    dtype: DType,
    shape: &[usize],
) -> Result<Tensor, NativeError> {
    let Ok(host) = Arc::clone(memory.handle()).downcast::<HostMemory>() else {
        return Err(host_memory::of_another_executor("memory to download"));
    };
    host_memory::tensor_over(host, offset, dtype, shape)
}

#[cfg(test)]
mod tests;
