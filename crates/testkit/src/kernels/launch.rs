//! One launch of one kernel on tensors.
#![allow(unsafe_code, reason = "launches on memory of their own")]

use kiln_backend::{
    Artifact, Builtin, BuiltinOperand, CallerOnly, ExecuteError, Fault, KernelExecutor, Launch,
    LaunchContext, LoadedKernel, Memory, MemorySlice, NumbersError, TaskPool,
};
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::SharedPair;
use kiln_native::NativeExecutor;
use kiln_native::guard::{ALIGNMENT, Side, with_guard_pages};
use kiln_tensor::{DType, Tensor, TensorError};
use std::sync::Arc;

use super::memory::{Image, Placement};

/// Why a kernel could not be run, or which memory it wrote out of bounds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The launch numbers have no value for the sizes.
    #[error(transparent)]
    Numbers(#[from] NumbersError),
    /// A number of the artifact is negative.
    #[error("expected {what} of the launch to be a count, found {value}")]
    Negative {
        /// Its name.
        what: String,
        /// The number.
        value: i64,
    },
    /// The device rejected it.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A tensor that cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Bytes outside of an operand were written.
    #[error("bytes beside the elements of %{buffer} were written")]
    Outside {
        /// The operand.
        buffer: String,
    },
}

/// Runs a kernel on tensors, one per buffer; returns the contents of the written ones, and the fault.
///
/// # Errors
/// If the artifact's numbers have no value, the device rejects the launch, or bytes outside of a result were written.
pub fn run_kernel(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    artifact: &Artifact,
    loaded: &LoadedKernel,
    symbols: &[i64],
    tensors: &[Tensor],
    pool: &Arc<dyn TaskPool>,
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    let context = LaunchContext {
        symbols,
        threads: pool.threads(),
        caches: executor.caches(),
    };
    run_in(
        executor,
        kernel,
        (artifact, loaded),
        &context,
        tensors,
        pool,
    )
}

/// The same in a given context, for example with other caches than the device's.
///
/// # Errors
/// As [`run_kernel`].
pub fn run_in(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    code: (&Artifact, &LoadedKernel),
    context: &LaunchContext<'_>,
    tensors: &[Tensor],
    pool: &Arc<dyn TaskPool>,
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    run_placed(
        executor,
        kernel,
        code,
        context,
        tensors,
        pool,
        (Placement::Amid, None),
    )
}

/// The same with a result in the memory of an operand.
///
/// # Errors
/// As [`run_kernel`].
pub fn run_in_place(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    code: (&Artifact, &LoadedKernel),
    context: &LaunchContext<'_>,
    tensors: &[Tensor],
    pool: &Arc<dyn TaskPool>,
    pair: SharedPair,
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    run_placed(
        executor,
        kernel,
        code,
        context,
        tensors,
        pool,
        (Placement::Amid, Some(pair)),
    )
}

/// The same, with each operand adjoining a guard page on that side: out-of-bounds reads are detected too. For the CPU's
/// executor, on a pool that runs all tasks on this thread; other devices allocate as usual.
///
/// # Errors
/// As [`run_kernel`].
pub fn run_guarded(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    code: (&Artifact, &LoadedKernel),
    context: &LaunchContext<'_>,
    tensors: &[Tensor],
    side: Side,
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    let placement = match side {
        Side::Before => Placement::First,
        Side::After => Placement::Last(ALIGNMENT),
    };
    let pool: Arc<dyn TaskPool> = Arc::new(CallerOnly);
    // Memory kept for reuse has no guard page, or one on the other side.
    if let Some(kept) = executor.memory_pool() {
        kept.trim(0);
    }
    with_guard_pages(side, || {
        run_placed(
            executor,
            kernel,
            code,
            context,
            tensors,
            &pool,
            (placement, None),
        )
    })
}

fn run_placed(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    (artifact, loaded): (&Artifact, &LoadedKernel),
    context: &LaunchContext<'_>,
    tensors: &[Tensor],
    pool: &Arc<dyn TaskPool>,
    (placement, shared): (Placement, Option<SharedPair>),
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    let symbols = context.symbols;
    let numbers = artifact.numbers(context)?;
    check_counts(artifact, context)?;
    let mut execution = executor.clone().with_pool(Arc::clone(pool)).begin();
    let mut images = Vec::new();
    let mut memories = Vec::new();
    for ((position, buffer), tensor) in kernel.buffers().values().enumerate().zip(tensors) {
        if let Some(pack) = artifact.packs.iter().find(|pack| pack.buffer == position) {
            images.push(None);
            let packed = executor.pack(tensor, pack)?;
            memories.push(match placement {
                Placement::Amid => packed,
                Placement::First | Placement::Last(_) => {
                    copied(executor, &mut *execution, &packed)?
                }
            });
            continue;
        }
        let image = Image::of(kernel, buffer, symbols, tensor, placement)?;
        memories.push(copy_in(executor, &mut *execution, &image.bytes)?);
        images.push(Some(image));
    }
    if let Some(pair) = shared {
        let position = |id| kernel.buffers().keys().position(|key| key == id);
        if let (Some(read), Some(written)) = (position(pair.read), position(pair.written)) {
            memories[written] = memories[read].clone();
            // Element widths are the same, and so are the offsets of images.
        }
    }
    let buffers: Vec<MemorySlice<'_>> = images
        .iter()
        .zip(&memories)
        .map(|(image, memory)| MemorySlice {
            memory,
            offset: image.as_ref().map_or(0, |image| image.offset),
            bytes: image.as_ref().map_or(memory.bytes(), |image| image.length),
        })
        .collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers,
    };
    // SAFETY: each buffer has separate memory, allocated above; except for a pair that may share.
    unsafe { execution.launch(loaded, &launch)? };
    let fault = execution.finish()?;
    drop(execution);
    let mut written = Vec::new();
    for (((id, buffer), image), memory) in kernel.buffers().iter().zip(&images).zip(&memories) {
        let Some(image) = image else {
            continue;
        };
        let after = executor.download(memory, 0, DType::U8, &[memory.bytes()])?;
        let (tensor, intact) = image.read(after.as_bytes()?)?;
        // The surroundings of an in-place result are those of the operand, which checks them.
        let is_in_place = shared.is_some_and(|pair| pair.written == id);
        if !intact && !is_in_place {
            return Err(LaunchError::Outside {
                buffer: buffer.name.clone(),
            });
        }
        if buffer.role.is_written() {
            written.push(tensor);
        }
    }
    Ok((written, fault))
}

/// Checks that counts are not negative: a launch treats negative ones as 0, which would hide a mistake.
fn check_counts(artifact: &Artifact, context: &LaunchContext<'_>) -> Result<(), LaunchError> {
    let bytes = artifact.buffers.iter();
    let bytes = bytes.map(|buffer| (buffer.name.as_str(), &buffer.bytes));
    let phases = artifact.phases.iter();
    let phases =
        phases.flat_map(|phase| [("the tasks", &phase.tasks), ("the scratch", &phase.scratch)]);
    let shared = [("the shared scratch", &artifact.shared_scratch)];
    for (what, quantity) in bytes.chain(phases).chain(shared) {
        let value = quantity.evaluate(context).map_err(NumbersError::from)?;
        if value < 0 {
            let what = what.to_owned();
            return Err(LaunchError::Negative { what, value });
        }
    }
    Ok(())
}

/// Writable memory with these bytes.
fn copy_in(
    executor: &dyn KernelExecutor,
    execution: &mut dyn kiln_backend::Execution,
    bytes: &[u8],
) -> Result<Memory, LaunchError> {
    let source = executor.upload(&Tensor::from_slice(&[bytes.len()], bytes)?)?;
    copied(executor, execution, &source)
}

/// The same bytes in writable memory.
fn copied(
    executor: &dyn KernelExecutor,
    execution: &mut dyn kiln_backend::Execution,
    source: &Memory,
) -> Result<Memory, LaunchError> {
    let memory = executor.alloc(source.bytes())?;
    let shape = [source.bytes()];
    let operand = BuiltinOperand {
        dtype: DType::U8,
        shape: &shape,
    };
    let whole = |memory| MemorySlice {
        memory,
        offset: 0,
        bytes: source.bytes(),
    };
    let (from, to) = ((whole(source), operand), (whole(&memory), operand));
    // SAFETY: the copy's memory was just allocated, and nothing writes to the other.
    unsafe { execution.run_builtin(&Builtin::Copy, &[from], &[to])? };
    execution.finish()?;
    Ok(memory)
}
