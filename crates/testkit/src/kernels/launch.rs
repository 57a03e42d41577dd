//! One launch of one kernel on tensors.

use kiln_backend::{
    Artifact, Builtin, BuiltinOperand, CallerOnly, ExecuteError, Fault, KernelExecutor, Launch,
    LaunchContext, LoadedKernel, Memory, MemorySlice, PhaseLaunch, Quantity, QuantityError,
    TaskPool,
};
use kiln_kernel::VerifiedKernel;
use kiln_native::guard::{ALIGNMENT, Side, with_guard_pages};
use kiln_tensor::{DType, Tensor, TensorError};
use std::sync::Arc;

use super::memory::{Image, Placement};

/// Why a kernel could not be run, or wrote where it may not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A number of the artifact has no value, or a negative one.
    #[error("{what} of the launch: {source}")]
    Quantity {
        /// Which number.
        what: String,
        /// Why.
        source: QuantityError,
    },
    /// A number of the artifact is negative.
    #[error("expected {what} of the launch to be a count, found {value}")]
    Negative {
        /// Which number.
        what: String,
        /// The number.
        value: i64,
    },
    /// The device refused.
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

/// Runs a kernel on tensors, one per buffer; gives what the written ones hold afterwards, and the fault.
///
/// # Errors
/// If the artifact's numbers have no value, the device refuses, or bytes outside of a result were written.
pub fn run_kernel(
    executor: &dyn KernelExecutor,
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

/// The same in a context of one's own: with caches other than the device has, say.
///
/// # Errors
/// As [`run_kernel`].
pub fn run_in(
    executor: &dyn KernelExecutor,
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
        Placement::Amid,
    )
}

/// The same, each operand flush with a page that ends the process when it is touched, on that side: reads outside are seen
/// too. For the CPU's executor, on a pool that runs all tasks on this thread; other devices allocate as ever.
///
/// # Errors
/// As [`run_kernel`].
pub fn run_guarded(
    executor: &dyn KernelExecutor,
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
    // What was kept has no guard, or one on the other side.
    if let Some(kept) = executor.memory_pool() {
        kept.trim(0);
    }
    with_guard_pages(side, || {
        run_placed(executor, kernel, code, context, tensors, &pool, placement)
    })
}

fn run_placed(
    executor: &dyn KernelExecutor,
    kernel: &VerifiedKernel,
    (artifact, loaded): (&Artifact, &LoadedKernel),
    context: &LaunchContext<'_>,
    tensors: &[Tensor],
    pool: &Arc<dyn TaskPool>,
    placement: Placement,
) -> Result<(Vec<Tensor>, Option<Fault>), LaunchError> {
    let symbols = context.symbols;
    let number = |what: &str, quantity: &Quantity| {
        let source = |source| LaunchError::Quantity {
            what: what.to_owned(),
            source,
        };
        quantity.evaluate(context).map_err(source)
    };
    let count = |what: &str, quantity: &Quantity| {
        let value = number(what, quantity)?;
        u64::try_from(value).map_err(|_| LaunchError::Negative {
            what: what.to_owned(),
            value,
        })
    };
    let mut execution = executor.begin(Arc::clone(pool));
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
    let buffers: Vec<MemorySlice<'_>> = images
        .iter()
        .zip(&memories)
        .map(|(image, memory)| MemorySlice {
            memory,
            offset: image.as_ref().map_or(0, |image| image.offset),
            bytes: image.as_ref().map_or(memory.bytes(), |image| image.length),
        })
        .collect();
    let mut bytes = Vec::new();
    for buffer in &artifact.buffers {
        bytes.push(count(&buffer.name, &buffer.bytes)? as usize);
    }
    let mut arguments = Vec::new();
    for argument in &artifact.arguments {
        arguments.push(number("an argument", argument)?);
    }
    let mut phases = Vec::new();
    for phase in &artifact.phases {
        phases.push(PhaseLaunch {
            tasks: count("the tasks", &phase.tasks)?,
            scratch: count("the scratch", &phase.scratch)? as usize,
        });
    }
    let launch = Launch {
        buffers: &buffers,
        bytes: &bytes,
        arguments: &arguments,
        phases: &phases,
        shared_scratch: count("the shared scratch", &artifact.shared_scratch)? as usize,
    };
    execution.launch(loaded, &launch)?;
    let fault = execution.finish()?;
    drop(execution);
    let mut written = Vec::new();
    for ((buffer, image), memory) in kernel.buffers().values().zip(&images).zip(&memories) {
        let Some(image) = image else {
            continue;
        };
        let after = executor.download(memory, 0, DType::U8, &[memory.bytes()])?;
        let (tensor, intact) = image.read(after.as_bytes()?)?;
        if !intact {
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

/// Memory that may be written, with these bytes in it.
fn copy_in(
    executor: &dyn KernelExecutor,
    execution: &mut dyn kiln_backend::Execution,
    bytes: &[u8],
) -> Result<Memory, LaunchError> {
    let source = executor.upload(&Tensor::from_slice(&[bytes.len()], bytes)?)?;
    copied(executor, execution, &source)
}

/// The same bytes in memory that may be written.
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
    execution.run_builtin(&Builtin::Copy, &[from], &[to])?;
    execution.finish()?;
    Ok(memory)
}
