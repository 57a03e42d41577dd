//! Runs a kernel natively on tensors: compile, load, launch.

use std::sync::Arc;

use kiln_codegen_llvm::{IsaLevel, LlvmCompiler};
use kiln_kernel::{
    Artifact, CallerOnly, Fault, KernelCompiler as _, KernelExecutor as _, Launch, LaunchContext,
    MemorySlice, PhaseLaunch, Role, Schedule, TaskPool, Unobserved, VerifiedKernel,
};
use kiln_native::NativeExecutor;
use kiln_tensor::Tensor;

/// The levels that this machine runs.
pub fn levels() -> Vec<IsaLevel> {
    IsaLevel::ALL
        .into_iter()
        .filter(|level| level.runs_here())
        .collect()
}

/// A kernel from its text.
pub fn kernel(text: &str) -> VerifiedKernel {
    let kernel =
        kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Compiles a kernel.
pub fn compile(kernel: &VerifiedKernel, level: IsaLevel, schedule: &Schedule) -> Artifact {
    LlvmCompiler::new()
        .compile(
            kernel,
            &LlvmCompiler::target(level),
            schedule,
            &mut Unobserved,
        )
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The sizes that tensors give a kernel's symbols.
pub fn bind(kernel: &VerifiedKernel, tensors: &[Tensor]) -> Vec<i64> {
    let mut values = vec![0; kernel.dims().symbols().count()];
    for (buffer, tensor) in kernel.buffers().values().zip(tensors) {
        for (&dim, &size) in buffer.shape.iter().zip(tensor.shape()) {
            if let Some(symbol) = kernel.dims().as_symbol(dim) {
                let position = kernel
                    .dims()
                    .symbols()
                    .position(|other| other == symbol)
                    .unwrap();
                values[position] = size as i64;
            }
        }
    }
    values
}

/// Runs an artifact on tensors, one per buffer; gives what the written ones hold afterwards, and the fault.
pub fn run(
    kernel: &VerifiedKernel,
    artifact: &Artifact,
    symbols: &[i64],
    tensors: &[Tensor],
    pool: Arc<dyn TaskPool>,
) -> (Vec<Tensor>, Option<Fault>) {
    let executor = NativeExecutor::new();
    let context = LaunchContext {
        symbols,
        threads: pool.threads(),
        caches: executor.caches(),
    };
    let number = |quantity: &kiln_kernel::Quantity| quantity.evaluate(&context).unwrap();
    let loaded = executor.load(artifact).unwrap();
    let memories: Vec<_> = tensors
        .iter()
        .enumerate()
        .map(|(position, tensor)| {
            match artifact.packs.iter().find(|pack| pack.buffer == position) {
                Some(pack) => executor.pack(tensor, pack).unwrap(),
                None => executor.upload(&tensor.copied().unwrap()).unwrap(),
            }
        })
        .collect();
    // What is written needs memory of its own.
    let memories: Vec<_> = memories
        .into_iter()
        .zip(kernel.buffers().values().zip(tensors))
        .map(|(memory, (buffer, tensor))| {
            if !buffer.role.is_written() {
                return memory;
            }
            writable(&executor, buffer.role, tensor)
        })
        .collect();
    let buffers: Vec<_> = memories
        .iter()
        .map(|memory| MemorySlice {
            memory,
            offset: 0,
            bytes: memory.bytes(),
        })
        .collect();
    let bytes: Vec<usize> = artifact
        .buffers
        .iter()
        .map(|buffer| usize::try_from(number(&buffer.bytes)).unwrap())
        .collect();
    let arguments: Vec<i64> = artifact.arguments.iter().map(number).collect();
    let phases: Vec<_> = artifact
        .phases
        .iter()
        .map(|phase| PhaseLaunch {
            tasks: u64::try_from(number(&phase.tasks)).unwrap(),
            scratch: usize::try_from(number(&phase.scratch)).unwrap(),
        })
        .collect();
    let mut execution = executor.begin(pool);
    let launch = Launch {
        buffers: &buffers,
        bytes: &bytes,
        arguments: &arguments,
        phases: &phases,
        shared_scratch: usize::try_from(number(&artifact.shared_scratch)).unwrap(),
    };
    execution.launch(&loaded, &launch).unwrap();
    let fault = execution.finish().unwrap();
    drop(execution);
    let written = memories
        .iter()
        .zip(kernel.buffers().values().zip(tensors))
        .filter(|(_, (buffer, _))| buffer.role.is_written())
        .map(|(memory, (buffer, tensor))| {
            executor
                .download(memory, 0, buffer.dtype, tensor.shape())
                .unwrap()
        })
        .collect();
    (written, fault)
}

fn writable(executor: &NativeExecutor, role: Role, tensor: &Tensor) -> kiln_kernel::Memory {
    let _ = role;
    executor.upload(&tensor.copied().unwrap()).unwrap()
}

/// Runs every task on the calling thread.
pub fn alone() -> Arc<dyn TaskPool> {
    Arc::new(CallerOnly)
}
