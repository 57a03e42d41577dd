//! The executor of a CUDA device: [`CudaExecutor`].
//!
//! Executors of one device share its context: streams, transfers and the error latch. Each has its own memory pool.
#![allow(unsafe_code, reason = "copies are vouched for here")]

mod arena;
mod builtin_code;
mod builtins;
mod context;
mod counters;
mod error;
mod execution;
mod gemm;
mod graphs;
mod kernel;
mod lane;
mod memory;
mod transfer;

pub use counters::CudaStatistics;
pub use error::DeviceError;

use crate::arch::CudaArch;
use crate::builtin::DeviceBuiltin;
use crate::driver::{DeviceInfo, Driver, DriverProblem, RealDriver};
use builtin_code::BuiltinCode;
use context::Context;
use execution::CudaExecution;
use gemm::Products;
use kernel::CudaKernel;
use kiln_backend::{
    Artifact, ExecuteError, Execution, KernelExecutor, LoadedKernel, Memory, MemoryLimits,
    MemoryPool, MemorySlice, PackSpec, Resident,
};
use kiln_fork_lock::{ForkLazy, ForkLock};
use kiln_tensor::{DType, Tensor, TensorError, element_count};
use memory::{DeviceMemory, DevicePool};
use std::fmt;
use std::sync::{Arc, Weak};

/// The executor of a CUDA device.
///
/// Memory is on the device: outputs stay there until the host reads them, and a tensor that is on the device is not
/// uploaded again. After an error that the driver calls sticky (an illegal address, say) every operation fails with
/// [`ExecuteError::device_lost`], and so do all executors of the device in this process.
#[derive(Clone)]
pub struct CudaExecutor {
    context: Arc<Context>,
    pool: DevicePool,
    products: Arc<Products>,
    host: Option<Arc<dyn KernelExecutor>>,
    /// The device on which NVRTC's code runs, and the architecture.
    builtins: Option<(CudaArch, Arc<BuiltinCode>)>,
}

/// The contexts of this process by the device's number.
static CONTEXTS: ForkLazy<ForkLock<Contexts>> = ForkLazy::new(ForkLock::default);

type Contexts = Vec<(u32, Weak<Context>)>;

/// The architecture for which code for a device is compiled.
///
/// # Errors
/// E0560 if there is no such architecture.
pub fn arch_of(device: &DeviceInfo) -> Result<CudaArch, DriverProblem> {
    let (major, minor) = device.capability;
    CudaArch::of_device(major, minor).ok_or_else(|| DriverProblem::Unsupported {
        name: device.name.clone(),
        capability: device.capability,
        known: CudaArch::ALL.map(CudaArch::name).join(", "),
    })
}

impl CudaExecutor {
    /// The executor of a device.
    ///
    /// # Errors
    /// If there is no driver or no such device, or its context cannot be made.
    pub fn open(ordinal: u32) -> Result<Self, DriverProblem> {
        let mut contexts = CONTEXTS.lock();
        let known = contexts.iter().find(|(number, _)| *number == ordinal);
        if let Some(context) = known.and_then(|(_, context)| context.upgrade()) {
            return Self::with_context(context).with_builtins();
        }
        let executor = Self::on(RealDriver::open(ordinal)?)?.with_builtins()?;
        contexts.retain(|(_, context)| context.strong_count() > 0);
        contexts.push((ordinal, Arc::downgrade(&executor.context)));
        Ok(executor)
    }

    /// An executor over the given driver, such as a mock.
    ///
    /// # Errors
    /// If no code is generated for the device, or streams cannot be made.
    pub fn on(driver: impl Driver + 'static) -> Result<Self, DriverProblem> {
        let arch = arch_of(driver.device())?;
        let context = Context::new(Box::new(driver), arch.name().to_owned())?;
        Ok(Self::with_context(Arc::new(context)))
    }

    fn with_context(context: Arc<Context>) -> Self {
        // Allocation waits for the whole device, so up to half of the memory is kept for reuse.
        let kept = context.driver().device().memory_bytes / 2;
        let limits = MemoryLimits::new().with_kept_bytes(kept);
        Self {
            pool: DevicePool::new(Arc::clone(&context), limits),
            context,
            products: Arc::new(Products::default()),
            host: None,
            builtins: None,
        }
    }

    /// Compiles builtins with NVRTC.
    fn with_builtins(self) -> Result<Self, DriverProblem> {
        let builtins = Some((arch_of(self.info())?, Arc::default()));
        Ok(Self { builtins, ..self })
    }

    /// The code of a builtin, if it is compiled by now.
    fn builtin_code(&self, builtin: DeviceBuiltin) -> Option<LoadedKernel> {
        let (arch, code) = self.builtins.as_ref()?;
        code.get(&self.context, *arch, builtin)
    }

    /// Sets the memory limits.
    #[must_use]
    pub fn with_memory_limits(self, limits: MemoryLimits) -> Self {
        let pool = DevicePool::new(Arc::clone(&self.context), limits);
        Self { pool, ..self }
    }

    /// Sets a device, whose memory the host can read, to run builtins for which this device has no code: their operands
    /// are copied there and back. [`CudaStatistics::host_builtins`] counts them.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn KernelExecutor>) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// The properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        self.context.driver().device()
    }

    /// The architecture for which its code is compiled: `sm_90a`.
    pub fn arch(&self) -> &str {
        self.context.arch()
    }

    /// The statistics of the device so far, for all its executors.
    pub fn statistics(&self) -> CudaStatistics {
        self.context.counters.read()
    }

    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn pool(&self) -> &DevicePool {
        &self.pool
    }

    fn products(&self) -> &Products {
        &self.products
    }

    fn host(&self) -> Option<&Arc<dyn KernelExecutor>> {
        self.host.as_ref()
    }

    /// Checks that a memory is on this device.
    fn own<'a>(&self, what: &str, memory: &'a Memory) -> Result<&'a DeviceMemory, DeviceError> {
        let own = memory.downcast::<DeviceMemory>();
        own.filter(|own| Arc::ptr_eq(own.context(), &self.context))
            .ok_or_else(|| DeviceError::foreign(what))
    }

    /// New memory with these bytes.
    fn filled(&self, bytes: &[u8]) -> Result<Memory, DeviceError> {
        let memory = self.pool.take(bytes.len())?;
        self.send(memory.address(), bytes)?;
        Ok(Memory::new(Arc::new(memory), bytes.len()))
    }

    /// Uploads bytes to a range of the same length, which nothing else uses now.
    fn send(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let counters = &self.context.counters;
        counters.uploads.add(1);
        counters.uploaded_bytes.add(bytes.len());
        let driver = self.context.driver();
        // SAFETY: callers checked the range; executions wait for uploads before they use it.
        let sent = unsafe { self.context.transfers.upload(driver, address, bytes) };
        self.context.done(sent)
    }

    /// Overwrites a slice, which no submitted work uses, with a tensor's elements.
    fn write(&self, slice: &MemorySlice<'_>, tensor: &Tensor) -> Result<(), DeviceError> {
        let tensor = tensor.contiguous()?;
        let bytes = tensor.as_bytes()?;
        let memory = self.own("memory to write", slice.memory)?;
        let place = memory.place(slice.offset, bytes.len());
        let place = place.filter(|_| bytes.len() <= slice.bytes);
        let place = place
            .ok_or_else(|| DeviceError::mismatch("memory to write", bytes.len(), slice.bytes))?;
        self.send(place, bytes)
    }

    /// A tensor that is on the device: its memory, or, if the tensor is only a part of that memory, a copy within the
    /// device.
    fn resident(&self, tensor: &Tensor) -> Result<Option<Memory>, DeviceError> {
        let Some(place) = Resident::place_of(tensor) else {
            return Ok(None);
        };
        let Ok(memory) = self.own("a tensor", place.memory) else {
            return Ok(None);
        };
        if place.offset == 0 {
            return Ok(Some(place.memory.clone()));
        }
        let Some(from) = memory.place(place.offset, place.bytes) else {
            return Ok(None);
        };
        let copy = self.pool.take(place.bytes)?;
        if place.bytes > 0 {
            let driver = self.context.driver();
            let (to, bytes) = (copy.address(), place.bytes);
            // SAFETY: both ranges were checked. The source is only read while the tensor lives, and its memory is not used
            // again before later uploads or executions, which wait for this copy.
            let copied = unsafe { self.context.transfers.copy_within(driver, to, from, bytes) };
            self.context.done(copied)?;
        }
        Ok(Some(Memory::new(Arc::new(copy), place.bytes)))
    }

    fn upload_tensor(&self, tensor: &Tensor) -> Result<Memory, DeviceError> {
        self.context.check()?;
        if let Some(memory) = self.resident(tensor)? {
            return Ok(memory);
        }
        let tensor = tensor.contiguous()?;
        self.filled(tensor.as_bytes()?)
    }

    /// Downloads bytes.
    fn receive(&self, memory: &Memory, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.context.check()?;
        let own = self.own("memory to download", memory)?;
        let Some(from) = own.place(offset, bytes.len()) else {
            return Err(DeviceError::mismatch(
                "a tensor to download",
                format_args!("a tensor within {} bytes of memory", own.bytes()),
                format_args!("{} bytes at offset {offset}", bytes.len()),
            ));
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let counters = &self.context.counters;
        counters.downloads.add(1);
        counters.downloaded_bytes.add(bytes.len());
        let driver = self.context.driver();
        // SAFETY: the range was checked, the memory is kept by its handle, and executions that write it are finished, as the
        // contract of downloads says.
        let received = unsafe { self.context.transfers.download(driver, from, bytes) };
        self.context.done(received)
    }

    fn download_tensor(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, DeviceError> {
        // Checked before anything is allocated for it.
        let bytes = element_count(dtype, shape)?.saturating_mul(dtype.size_in_bytes());
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > memory.bytes())
        {
            return Err(DeviceError::mismatch(
                "a tensor to download",
                format_args!("a tensor within {} bytes of memory", memory.bytes()),
                format_args!("{bytes} bytes at offset {offset}"),
            ));
        }
        let mut problem = None;
        let tensor = Tensor::filled_by(dtype, shape, |bytes| {
            self.receive(memory, offset, bytes).map_err(|error| {
                let message = error.to_string();
                problem = Some(error);
                TensorError::Deferred(message.into())
            })
        });
        match problem {
            Some(problem) => Err(problem),
            None => Ok(tensor?),
        }
    }
}

impl KernelExecutor for CudaExecutor {
    fn device(&self) -> String {
        self.context.name().to_owned()
    }

    fn caches(&self) -> [usize; 3] {
        let info = self.info();
        [info.max_shared_bytes, info.l2_bytes, info.l2_bytes]
    }

    fn parallelism(&self) -> usize {
        (self.info().multiprocessors as usize).max(1)
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn has_own_memory(&self) -> bool {
        true
    }

    fn is_healthy(&self) -> bool {
        self.context.is_healthy()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.statistics().to_vec()
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        let kernel = CudaKernel::load(&self.context, artifact)?;
        if !kernel.is_recordable() {
            self.products.open(&self.context)?;
        }
        tracing::debug!(kernel = artifact.kernel, "cuda.load");
        Ok(LoadedKernel::new(Arc::new(kernel)))
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        Ok(self.pool.rent_memory(bytes)?)
    }

    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        Some(&self.pool)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        Ok(self.upload_tensor(tensor)?)
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        let packed = spec.apply(tensor).map_err(DeviceError::from)?;
        self.upload(&packed)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        Ok(self.download_tensor(memory, offset, dtype, shape)?)
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(CudaExecution::new(self.clone()))
    }
}

impl fmt::Debug for CudaExecutor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CudaExecutor")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
