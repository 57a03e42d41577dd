//! Execution of compiled kernels on a device: [`KernelExecutor`], and the [`Execution`] that one run of a program
//! holds.
//!
//! A device has its own memory and may run asynchronously to its caller. The contract of both sides:
//!
//! - **Order.** An execution is one stream: its launches and builtins take effect as if one ran after another, in the order in
//!   which they were given. When they run is the device's to say, at the latest in [`finish`](Execution::finish). Executions
//!   know nothing of each other.
//! - **Lifetime.** An execution keeps every kernel and memory that it was given until `finish` has returned, so a caller may
//!   drop its own handles at once.
//! - **Transfers.** What [`upload`](KernelExecutor::upload) and [`pack`](KernelExecutor::pack) return is there for every launch
//!   that is given it afterwards. [`download`](KernelExecutor::download) sees what finished executions wrote: a
//!   caller that downloads what a launch writes finishes its execution first.
//! - **Residence.** An output may stay where it was computed, as a tensor that is [`Resident`]. So what `upload` returns may be
//!   a tensor's memory, and is only read, unless that tensor was given up and no other handle to the memory is left; and a
//!   device uses memory again once the last handle to it is gone, and no sooner.
//! - **Sizes.** Nothing that runs on a device returns a size: a program downloads the values it needs.
//! - **Loss.** All that a lost device is asked fails with [`ExecuteError::device_lost`], at the latest when it is waited for.
//!   Giving memory up, which cannot fail, still works, and so does [`reclaim`](KernelExecutor::reclaim).
//! - **Parallelism** is the device's own: see [`parallelism`](KernelExecutor::parallelism).
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

/// A kernel that can be launched; dropped when nothing runs in it.
#[derive(Clone)]
pub struct LoadedKernel(Arc<dyn Any + Send + Sync>);

/// Memory of a device; freed when the last handle is gone.
#[derive(Clone)]
pub struct Memory {
    handle: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl LoadedKernel {
    /// Wraps what an executor keeps of a kernel.
    pub fn new(kernel: Arc<dyn Any + Send + Sync>) -> Self {
        Self(kernel)
    }

    /// What the executor of type `T` kept.
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
    /// Wraps what an executor keeps of `bytes` bytes of memory.
    pub fn new(handle: Arc<dyn Any + Send + Sync>, bytes: usize) -> Self {
        Self { handle, bytes }
    }

    /// How many bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the executor of type `T` kept.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.handle.downcast_ref()
    }

    /// What the executor of type `T` kept, and its bytes, to be changed; none where others have the memory too.
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
    /// How many bytes.
    pub bytes: usize,
}

/// One launch of a kernel: everything evaluated, nothing to compute.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The buffers, in the kernel's order. Written ones overlap no other, save for the artifact's `in_place` pairs.
    pub buffers: &'a [MemorySlice<'a>],
    /// The size-dependent numbers from the kernel's artifact, for this launch.
    pub numbers: &'a LaunchNumbers,
}

/// What tells batches of launches apart. Batches with one key have the same kernels with the same numbers, in the same order;
/// only their memories may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// A plan of launches, unlike any other of this process.
    pub plan: u64,
    /// Where in it the batch begins.
    pub first: usize,
}

/// What generated code reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultCause {
    /// An index outside its buffer.
    IndexOutOfRange,
    /// An integer divided by zero.
    DivisionByZero,
}

/// A fault of a launch: the first one is kept until the execution ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The launch, counted from the execution's start or the last [`finish`](Execution::finish); builtins do not count.
    pub launch: usize,
    /// What happened.
    pub cause: FaultCause,
    /// Which of the artifact's `fault_sites`.
    pub site: usize,
}

/// Why an executor could not do something.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ExecuteError {
    /// The stable code of the executor's error.
    pub code: &'static str,
    /// Whether memory was short.
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
    /// The code of a device that was lost.
    pub const DEVICE_LOST: &str = "E0896";

    /// E0896: a device that was lost, by its name, and why: all that it is asked from now on fails so.
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
    /// What it is, for people: `cpu`.
    fn device(&self) -> String;

    /// Bytes of the caches of level 1 to 3 that one core can count on.
    fn caches(&self) -> [usize; 3];

    /// How many tasks of a launch run at once, at least 1: on a CPU, the threads that take part.
    fn parallelism(&self) -> usize;

    /// Whether it is worth to [launch in batches](Execution::launch_batch): the device does more with them than launch one by
    /// one, such as record them once and replay them.
    fn takes_batches(&self) -> bool {
        false
    }

    /// Makes an artifact callable.
    ///
    /// # Errors
    /// If the code is damaged, or asks for what is not allowed.
    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError>;

    /// Memory of the device, aligned to 64 bytes, its content not defined.
    ///
    /// # Errors
    /// If it is short.
    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError>;

    /// The pool that [`alloc`](Self::alloc) rents from, if there is one.
    fn memory_pool(&self) -> Option<&dyn MemoryPool> {
        None
    }

    /// Whether its memory is apart from the host's, so that outputs are worth leaving there until the host looks at them.
    fn has_own_memory(&self) -> bool {
        false
    }

    /// A tensor's elements, row-major; without a copy where the device reads host memory. What is [`Resident`] in the
    /// device's own memory is neither downloaded nor uploaded: its memory is shared.
    ///
    /// # Errors
    /// If memory is short, or the elements are another device's and cannot be downloaded.
    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError>;

    /// As [`upload`](Self::upload), in place of what `memory` was, so that a call that comes again allocates nothing; none
    /// gives up what it was.
    ///
    /// # Errors
    /// If memory is short.
    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        *memory = match tensor {
            Some(tensor) => self.upload(tensor)?,
            None => self.alloc(0)?,
        };
        Ok(())
    }

    /// From how many bytes on it is worth to [lend](Self::lend) a tensor rather than to copy into it.
    fn lends_from(&self) -> usize {
        usize::MAX
    }

    /// Takes a tensor for launches to write its elements in place, row-major: it becomes `memory`, replacing what that was,
    /// until it is [reclaimed](Self::reclaim). Launches do not read the elements that it has; those that do are given an
    /// [adopted](Self::adopt) one. Returns it where that is impossible: where its memory is shared or not the device's to
    /// write.
    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let _ = memory;
        Some(tensor)
    }

    /// As [`lend`](Self::lend), for launches that also read the tensor's elements, until they write others.
    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let _ = memory;
        Some(tensor)
    }

    /// The tensor that was lent or adopted as this memory, which had this dtype and shape, with what launches wrote; none if there was
    /// none, or while others have the memory too.
    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let _ = (memory, dtype, shape);
        None
    }

    /// A constant laid out as a kernel wants it.
    ///
    /// # Errors
    /// If memory is short, or the specification does not fit the tensor.
    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError>;

    /// A row-major tensor from memory; without a copy where the host reads the device's memory.
    ///
    /// # Errors
    /// If memory is short, or the tensor does not lie within it.
    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError>;

    /// Overwrites a tensor by the elements of its dtype and shape in memory, row-major.
    ///
    /// # Errors
    /// As [`download`](Self::download).
    fn download_into(
        &self,
        memory: &Memory,
        offset: usize,
        tensor: &mut Tensor,
    ) -> Result<(), ExecuteError> {
        // Another's memory must not be what a caller keeps.
        let downloaded = self.download(memory, offset, tensor.dtype(), tensor.shape())?;
        *tensor = downloaded.copied().map_err(|error| ExecuteError {
            code: error.code(),
            out_of_memory: true,
            source: Box::new(error),
        })?;
        Ok(())
    }

    /// The state of one run of a program at a time; to be reused by later ones.
    fn begin(&self) -> Box<dyn Execution>;
}

/// Decides when a run is to end early. Polled often, from any thread; once it returns true, it stays true.
pub trait StopSignal: Send + Sync {
    /// Whether to end.
    fn is_stopped(&self) -> bool;

    /// The stop word, which compiled code reads while it runs: 0 until the run is to end. The implementation sees to it
    /// that the word is set soon after there is a reason to, also while no one asks [`is_stopped`](Self::is_stopped).
    fn word(&self) -> &AtomicU32;
}

/// One run of a program on a device: launches in order, and the first fault.
///
/// Safe code does not launch, as nothing would say what else uses the memory:
///
/// ```compile_fail,E0133
/// use kiln_backend::{Execution, Launch, LoadedKernel};
///
/// fn launch(execution: &mut dyn Execution, kernel: &LoadedKernel, launch: &Launch<'_>) {
///     let _ = execution.launch(kernel, launch);
/// }
/// ```
pub trait Execution: Send {
    /// Lets launches return before their work is done once this says so; what they write is then not defined. None lets
    /// them end as they do. A device that cannot stop takes no notice.
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
    /// nothing else reads those that it writes. Elements that it writes are elements of no other buffer of the launch, save
    /// for the artifact's `in_place` pairs.
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError>;

    /// Launches kernels one after another, as [`launch`](Self::launch) does.
    ///
    /// # Errors
    /// Of the first launch that does not fit its kernel, and which one that is. Those before it are launched.
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

    /// Runs a builtin after everything launched before it. May return before it has run; the sizes that it finds are in its
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

    /// Waits for everything launched, and gives the first fault since the last call. What follows starts anew. Also after a
    /// launch that failed: what was launched before it has run.
    ///
    /// # Errors
    /// If the device is lost.
    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError>;
}
