//! An executor that wraps another: [`ExecutorWrapper`].

use std::sync::Arc;

use kiln_tensor::{DType, Tensor};

use crate::artifact::Artifact;
use crate::execute::{ExecuteError, Execution, KernelExecutor, LoadedKernel, Memory};
use crate::memory_pool::MemoryPool;
use crate::pack::PackSpec;

/// A [`KernelExecutor`] around another one, to which all methods that the wrapper does not override are forwarded. The
/// methods are those of [`KernelExecutor`].
///
/// Memories and kernels are the inner executor's, and so are the tensors that stay on it.
///
/// ```
/// use std::sync::Arc;
///
/// use kiln_backend::{ExecutorWrapper, KernelExecutor};
///
/// /// An executor that says it has one thread.
/// struct Narrow(Arc<dyn KernelExecutor>);
///
/// impl ExecutorWrapper for Narrow {
///     type Inner = dyn KernelExecutor;
///
///     fn inner(&self) -> &Self::Inner {
///         &*self.0
///     }
///
///     fn parallelism(&self) -> usize {
///         1
///     }
/// }
///
/// fn takes_an_executor(_: impl KernelExecutor) {}
/// # fn example(executor: Arc<dyn KernelExecutor>) {
/// takes_an_executor(Narrow(executor));
/// # }
/// ```
pub trait ExecutorWrapper: Send + Sync {
    /// The inner executor.
    type Inner: KernelExecutor + ?Sized;

    /// The inner executor.
    fn inner(&self) -> &Self::Inner;

    /// See [`KernelExecutor::device`].
    fn device(&self) -> String {
        self.inner().device()
    }

    /// See [`KernelExecutor::caches`].
    fn caches(&self) -> [usize; 3] {
        self.inner().caches()
    }

    /// See [`KernelExecutor::parallelism`].
    fn parallelism(&self) -> usize {
        self.inner().parallelism()
    }

    /// See [`KernelExecutor::takes_batches`].
    fn takes_batches(&self) -> bool {
        self.inner().takes_batches()
    }

    /// See [`KernelExecutor::has_own_memory`].
    fn has_own_memory(&self) -> bool {
        self.inner().has_own_memory()
    }

    /// See [`KernelExecutor::is_healthy`].
    fn is_healthy(&self) -> bool {
        self.inner().is_healthy()
    }

    /// See [`KernelExecutor::counts`].
    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.inner().counts()
    }

    /// See [`KernelExecutor::load`].
    ///
    /// # Errors
    /// As there.
    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        self.inner().load(artifact)
    }

    /// See [`KernelExecutor::alloc`].
    ///
    /// # Errors
    /// As there.
    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        self.inner().alloc(bytes)
    }

    /// See [`KernelExecutor::memory_pool`].
    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        self.inner().memory_pool()
    }

    /// See [`KernelExecutor::upload`].
    ///
    /// # Errors
    /// As there.
    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        self.inner().upload(tensor)
    }

    /// See [`KernelExecutor::reupload`].
    ///
    /// # Errors
    /// As there.
    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        self.inner().reupload(tensor, memory)
    }

    /// See [`KernelExecutor::lends_from`].
    fn lends_from(&self) -> usize {
        self.inner().lends_from()
    }

    /// See [`KernelExecutor::lend`].
    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        self.inner().lend(tensor, memory)
    }

    /// See [`KernelExecutor::adopt`].
    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        self.inner().adopt(tensor, memory)
    }

    /// See [`KernelExecutor::reclaim`].
    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        self.inner().reclaim(memory, dtype, shape)
    }

    /// See [`KernelExecutor::pack`].
    ///
    /// # Errors
    /// As there.
    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        self.inner().pack(tensor, spec)
    }

    /// See [`KernelExecutor::download`].
    ///
    /// # Errors
    /// As there.
    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        self.inner().download(memory, offset, dtype, shape)
    }

    /// See [`KernelExecutor::download_into`].
    ///
    /// # Errors
    /// As there.
    fn download_into(
        &self,
        memory: &Memory,
        offset: usize,
        tensor: &mut Tensor,
    ) -> Result<(), ExecuteError> {
        self.inner().download_into(memory, offset, tensor)
    }

    /// See [`KernelExecutor::begin`].
    fn begin(&self) -> Box<dyn Execution> {
        self.inner().begin()
    }
}

impl<E: KernelExecutor + ?Sized> ExecutorWrapper for Arc<E> {
    type Inner = E;

    fn inner(&self) -> &E {
        self
    }
}

impl<W: ExecutorWrapper> KernelExecutor for W {
    fn device(&self) -> String {
        ExecutorWrapper::device(self)
    }

    fn caches(&self) -> [usize; 3] {
        ExecutorWrapper::caches(self)
    }

    fn parallelism(&self) -> usize {
        ExecutorWrapper::parallelism(self)
    }

    fn takes_batches(&self) -> bool {
        ExecutorWrapper::takes_batches(self)
    }

    fn has_own_memory(&self) -> bool {
        ExecutorWrapper::has_own_memory(self)
    }

    fn is_healthy(&self) -> bool {
        ExecutorWrapper::is_healthy(self)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        ExecutorWrapper::counts(self)
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        ExecutorWrapper::load(self, artifact)
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        ExecutorWrapper::alloc(self, bytes)
    }

    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        ExecutorWrapper::memory_pool(self)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        ExecutorWrapper::upload(self, tensor)
    }

    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        ExecutorWrapper::reupload(self, tensor, memory)
    }

    fn lends_from(&self) -> usize {
        ExecutorWrapper::lends_from(self)
    }

    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        ExecutorWrapper::lend(self, tensor, memory)
    }

    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        ExecutorWrapper::adopt(self, tensor, memory)
    }

    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        ExecutorWrapper::reclaim(self, memory, dtype, shape)
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        ExecutorWrapper::pack(self, tensor, spec)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        ExecutorWrapper::download(self, memory, offset, dtype, shape)
    }

    fn download_into(
        &self,
        memory: &Memory,
        offset: usize,
        tensor: &mut Tensor,
    ) -> Result<(), ExecuteError> {
        ExecutorWrapper::download_into(self, memory, offset, tensor)
    }

    fn begin(&self) -> Box<dyn Execution> {
        ExecutorWrapper::begin(self)
    }
}
