//! The entry for this machine's CPU: LLVM compiles, in this process or in workers, and a thread pool runs the loaded
//! code.
//!
//! In builds without LLVM nothing is compiled; the executor runs the code in bundles and caches.

use super::entry::{DeviceEntry, DeviceProblem, DeviceSetup};
use kiln_backend::{IsaLevel, KernelCompiler, KernelExecutor, Target};
use kiln_lazy_runtime::SpinPool;
use kiln_native::NativeExecutor;
use kiln_schedule_cpu::target_of;
use std::sync::Arc;

/// The maximum number of workers in addition to one per compile thread: spare threads take over from those whose
/// compile hangs.
#[cfg(feature = "llvm")]
const SPARE_WORKERS: usize = 2;

/// The CPU.
pub(super) struct Cpu;

impl DeviceEntry for Cpu {
    fn key(&self) -> &str {
        super::CPU
    }

    fn levels(&self) -> Vec<String> {
        IsaLevel::of_host()
            .map(|level| level.name().to_owned())
            .collect()
    }

    fn target(&self, level: Option<&str>) -> Result<Target, DeviceProblem> {
        let found = match level {
            None => IsaLevel::host(),
            Some(name) => IsaLevel::of_host().find(|level| level.name() == name),
        };
        let found =
            found.ok_or("Kiln cannot generate code for this machine; use the interpreter")?;
        Ok(target_of(found))
    }

    #[cfg(feature = "llvm")]
    fn compiler(&self, setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        use crate::Compiler;
        use kiln_codegen_llvm::{LlvmCompiler, LlvmError};
        use kiln_compile_worker::{WorkerCompiler, WorkerProgram};

        let llvm = LlvmCompiler::new().with_fewer_products(setup.fewer_products);
        let program = match &setup.compiler {
            Compiler::InProcess => return Ok(Box::new(llvm)),
            Compiler::Worker { program: None } => WorkerProgram::current()?,
            Compiler::Worker {
                program: Some(program),
            } => program.clone(),
        };
        let workers = setup.compile_threads.saturating_add(SPARE_WORKERS);
        let limits = setup.compile_limits;
        let compiler = WorkerCompiler::new(llvm, LlvmError::CODES, program, limits, workers)?;
        Ok(Box::new(compiler))
    }

    #[cfg(not(feature = "llvm"))]
    fn compiler(&self, setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        use kiln_schedule_cpu::StoredCode;
        use kiln_schedule_cpu::winograd::Transform;

        let transform = match setup.fewer_products {
            true => Transform::FourByFour,
            false => Transform::default(),
        };
        let stored_by = setup.stored_by.clone().unwrap_or_default();
        Ok(Box::new(
            StoredCode::new(stored_by.version).with_transform(transform),
        ))
    }

    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem> {
        let executor = NativeExecutor::new()
            .with_memory_limits(setup.memory)
            .with_pool(Arc::new(SpinPool::new(setup.threads)));
        Ok(Arc::new(executor))
    }
}
