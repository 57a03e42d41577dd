//! Execution of compiled kernels on a device: [`KernelExecutor`], and the [`Execution`] that one run of a program
//! holds.
//!
//! A device has its own memory and may run asynchronously to its caller. The contract of both sides:
//!
//! - **Order.** An execution is one stream: its launches and builtins take effect as if they ran one after another, in the
//!   order in which they were submitted. The device decides when they run, at the latest in [`finish`](Execution::finish).
//!   Executions are independent of each other.
//! - **Lifetime.** An execution keeps every kernel and memory that it was given until `finish` has returned, so a caller
//!   may drop its own handles immediately.
//! - **Transfers.** The memory that [`upload`](KernelExecutor::upload) and [`pack`](KernelExecutor::pack) return is ready
//!   for every later launch that is given it. [`download`](KernelExecutor::download) sees the writes of finished
//!   executions: a caller that downloads the result of a launch finishes its execution first.
//! - **Residence.** An output may stay where it was computed, as a tensor that is [`Resident`]. So the memory that
//!   `upload` returns may belong to a tensor. It is read-only, unless that tensor was donated and no other handle to
//!   the memory is left. A device reuses memory only after the last handle to it has been dropped.
//! - **Sizes.** Nothing that runs on a device returns a size: a program downloads the values it needs.
//! - **Loss.** Every operation on a lost device fails with [`ExecuteError::device_lost`], at the latest when it is waited
//!   for. Releasing memory, which cannot fail, still works, and so does [`reclaim`](KernelExecutor::reclaim).
//! - **Parallelism** is internal to the device: see [`parallelism`](KernelExecutor::parallelism).
#![allow(
    unsafe_code,
    reason = "the caller of a launch vouches for what else uses the memory"
)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use kiln_tensor::{DType, Tensor};

use crate::artifact::Artifact;
use crate::builtin::{Builtin, BuiltinOperand};
use crate::memory_pool::MemoryPool;
use crate::numbers::LaunchNumbers;
use crate::pack::PackSpec;
#[cfg(doc)]
use crate::resident::Resident;

/// A kernel that can be launched; dropped when no launch of it is running.
#[derive(Clone)]
pub struct LoadedKernel(Arc<dyn Any + Send + Sync>);

/// Memory of a device; freed when the last handle is dropped.
#[derive(Clone)]
pub struct Memory {
    handle: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl LoadedKernel {
    /// Wraps an executor's representation of a kernel.
    pub fn new(kernel: Arc<dyn Any + Send + Sync>) -> Self {
        Self(kernel)
    }

    /// The representation, for an executor that stored a `T`.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for LoadedKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LoadedKernel")
    }
}

impl Memory {
    /// Wraps an executor's representation of `bytes` bytes of memory.
    pub fn new(handle: Arc<dyn Any + Send + Sync>, bytes: usize) -> Self {
        Self { handle, bytes }
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The representation, for an executor that stored a `T`.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.handle.downcast_ref()
    }

    /// The representation and its bytes, mutable; `None` if there are other handles to the memory.
    pub fn parts_mut<T: Any>(&mut self) -> Option<(&mut T, &mut usize)> {
        let kept = Arc::get_mut(&mut self.handle)?.downcast_mut()?;
        Some((kept, &mut self.bytes))
    }

    /// Whether this is the only handle.
    pub fn is_sole(&mut self) -> bool {
        Arc::get_mut(&mut self.handle).is_some()
    }

    /// The handle, shared.
    pub fn handle(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.handle
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Memory")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A part of a device's memory.
#[derive(Clone, Copy, Debug)]
pub struct MemorySlice<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// Bytes from its start.
    pub offset: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// One launch of a kernel, with everything evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The buffers, in the kernel's order. Written ones overlap no others, except for the artifact's `in_place` pairs.
    pub buffers: &'a [MemorySlice<'a>],
    /// The size-dependent numbers from the kernel's artifact, for this launch.
    pub numbers: &'a LaunchNumbers,
}

/// Identifies a batch of launches. Batches with the same key have the same kernels with the same numbers, in the same
/// order; only their memories may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// A plan of launches, unique in this process.
    pub plan: u64,
    /// The position in it at which the batch begins.
    pub first: usize,
}

/// A fault reported by generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultCause {
    /// An index out of bounds.
    IndexOutOfRange,
    /// An integer divided by zero.
    DivisionByZero,
}

/// A fault of a launch: the first one is kept until the execution ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The launch, counted from the execution's start or the last [`finish`](Execution::finish); builtins do not count.
    pub launch: usize,
    /// The kind of fault.
    pub cause: FaultCause,
    /// The index among the artifact's `fault_sites`.
    pub site: usize,
}

/// Why an executor failed.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ExecuteError {
    /// The stable code of the executor's error.
    pub code: &'static str,
    /// Whether memory could not be allocated.
    pub out_of_memory: bool,
    /// The executor's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Why a device is no longer usable.
#[derive(Debug, thiserror::Error)]
#[error("device {device} was lost: {reason}")]
struct DeviceLost {
    device: String,
    reason: String,
}

impl ExecuteError {
    /// The code of a lost device.
    pub const DEVICE_LOST: &str = "E0896";

    /// E0896: a lost device, with its name and the reason: every further operation on it fails with this error.
    pub fn device_lost(device: impl Into<String>, reason: impl ToString) -> Self {
        let lost = DeviceLost {
            device: device.into(),
            reason: reason.to_string(),
        };
        Self {
            code: Self::DEVICE_LOST,
            out_of_memory: false,
            source: Box::new(lost),
        }
    }

    /// Whether the device was lost.
    pub fn is_device_lost(&self) -> bool {
        self.code == Self::DEVICE_LOST
    }
}

/// A device: memory, loaded kernels, and executions.
pub trait KernelExecutor: Send + Sync {
    /// Its display name: `cpu`.
    fn device(&self) -> String;

    /// Bytes of the caches of level 1 to 3 available to one core.
    fn caches(&self) -> [usize; 3];

    /// The number of tasks of a launch that run concurrently, at least 1: on a CPU, the participating threads.
    fn parallelism(&self) -> usize;

    /// Whether it is worth [launching in batches](Execution::launch_batch): the device does more with a batch than
    /// launching one by one, such as recording it once and replaying it.
    fn takes_batches(&self) -> bool {
        false
    }

    /// Whether the device works; once it is lost, this is always false.
    fn is_healthy(&self) -> bool {
        true
    }

    /// Counters of the device, by name, for reports; for example, of the work that it had no code for and that ran
    /// elsewhere.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Makes an artifact callable.
    ///
    /// # Errors
    /// If the code is damaged, or requires something that is not allowed.
    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError>;

    /// Memory of the device, aligned to 64 bytes, with undefined content.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError>;

    /// The pool that [`alloc`](Self::alloc) rents from, if there is one.
    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        None
    }

    /// Whether its memory is separate from the host's, so that outputs are worth leaving there until the host reads them.
    fn has_own_memory(&self) -> bool {
        false
    }

    /// A tensor's elements, row-major; without a copy if the device reads host memory. A tensor that is [`Resident`] in
    /// the device's own memory is neither downloaded nor uploaded: its memory is shared.
    ///
    /// # Errors
    /// If memory cannot be allocated, or the elements are another device's and cannot be downloaded.
    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError>;

    /// As [`upload`](Self::upload), reusing `memory`, so that a repeated call allocates nothing; `None` releases it.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        *memory = match tensor {
            Some(tensor) => self.upload(tensor)?,
            None => self.alloc(0)?,
        };
        Ok(())
    }

    /// The number of bytes from which it is worth [lending](Self::lend) a tensor rather than copying into it.
    fn lends_from(&self) -> usize {
        usize::MAX
    }

    /// Takes a tensor so that launches write its elements in place, row-major: it becomes `memory`, replacing the
    /// previous content, until it is [reclaimed](Self::reclaim). Launches must not read its existing elements; for
    /// launches that do, it is [adopted](Self::adopt) instead. Returns the tensor if that is impossible, because its
    /// memory is shared or the device may not write to it.
    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let _ = memory;
        Some(tensor)
    }

    /// As [`lend`](Self::lend), for launches that also read the tensor's elements, until they overwrite them.
    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let _ = memory;
        Some(tensor)
    }

    /// The tensor that was lent or adopted as this memory, with this dtype and shape, and with the results of launches;
    /// `None` if there was none, or while there are other handles to the memory.
    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let _ = (memory, dtype, shape);
        None
    }

    /// A constant packed for a kernel.
    ///
    /// # Errors
    /// If memory cannot be allocated, or the specification does not fit the tensor.
    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError>;

    /// A row-major tensor from memory; without a copy if the host reads the device's memory.
    ///
    /// # Errors
    /// If memory cannot be allocated, or the tensor is not within it.
    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError>;

    /// Overwrites a tensor with the elements of its dtype and shape in memory, row-major.
    ///
    /// # Errors
    /// As [`download`](Self::download).
    fn download_into(
        &self,
        memory: &Memory,
        offset: usize,
        tensor: &mut Tensor,
    ) -> Result<(), ExecuteError> {
        // The caller must not keep memory of another device.
        let downloaded = self.download(memory, offset, tensor.dtype(), tensor.shape())?;
        *tensor = downloaded.copied().map_err(|error| ExecuteError {
            code: error.code(),
            out_of_memory: true,
            source: Box::new(error),
        })?;
        Ok(())
    }

    /// The state of one run of a program at a time; reusable by later ones.
    fn begin(&self) -> Box<dyn Execution>;
}

/// Decides when a run is to end early. Polled often, from any thread; once it returns true, it keeps returning true.
pub trait StopSignal: Send + Sync {
    /// Whether the run is to end.
    fn is_stopped(&self) -> bool;

    /// The stop word, which compiled code polls: 0 until the run is to end. The implementation ensures that the word is set
    /// soon after there is a reason to, even while no thread calls [`is_stopped`](Self::is_stopped).
    fn word(&self) -> &AtomicU32;
}

/// One run of a program on a device: launches in order, and the first fault.
///
/// Safe code cannot launch, since nothing would guarantee that the memory is not otherwise in use:
///
/// ```compile_fail,E0133
/// use kiln_backend::{Execution, Launch, LoadedKernel};
///
/// fn launch(execution: &mut dyn Execution, kernel: &LoadedKernel, launch: &Launch<'_>) {
///     let _ = execution.launch(kernel, launch);
/// }
/// ```
pub trait Execution: Send {
    /// Lets launches return before their work is done once the signal is set; their results are then undefined. `None`
    /// disables this. A device that cannot stop ignores it.
    fn stop_when(&mut self, signal: Option<Arc<dyn StopSignal>>) {
        let _ = signal;
    }

    /// Launches a kernel after everything launched before it. May return before the kernel has run.
    ///
    /// # Errors
    /// If the launch does not fit the kernel: a buffer too small or missing.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) returns, nothing but this execution writes the elements of the launch's buffers, and
    /// nothing else reads those that it writes. Elements that it writes belong to no other buffer of the launch, except for
    /// the artifact's `in_place` pairs.
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError>;

    /// Launches kernels one after another, as [`launch`](Self::launch) does.
    ///
    /// # Errors
    /// That of the first launch that does not fit its kernel, with its index. Those before it are launched.
    ///
    /// # Safety
    /// As [`launch`](Self::launch), for each of them.
    unsafe fn launch_batch(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
    ) -> Result<(), (usize, ExecuteError)> {
        let _ = key;
        for (number, (kernel, launch)) in batch.iter().enumerate() {
            // SAFETY: as the caller promises.
            let launched = unsafe { self.launch(kernel, launch) };
            launched.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    /// Runs a builtin after everything launched before it. May return before it has run; sizes that it finds are in its
    /// results.
    ///
    /// # Errors
    /// If the operands do not fit it.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError>;

    /// Waits for everything launched, and returns the first fault since the last call. Launches after it start a new
    /// sequence. Also works after a failed launch: everything launched before it has run.
    ///
    /// # Errors
    /// If the device is lost.
    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError>;
}
