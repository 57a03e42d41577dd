//! The entry of this machine's CPU: LLVM compiles, in this process or in workers; loaded code runs on a pool of threads.
//!
//! In builds without LLVM there is no compiler, and the executor runs the code of bundles.

use super::entry::{DeviceEntry, DeviceProblem, DeviceSetup};
use kiln_backend::{IsaLevel, KernelCompiler, KernelExecutor, Target};
use kiln_lazy_runtime::SpinPool;
use kiln_native::NativeExecutor;
use std::sync::Arc;

/// How many workers there may be beside one for each thread that compiles: threads take over from those whose compile hangs.
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

    #[cfg(feature = "llvm")]
    fn target(&self, level: Option<&str>) -> Result<Target, DeviceProblem> {
        let found = match level {
            None => IsaLevel::host(),
            Some(name) => IsaLevel::of_host().find(|level| level.name() == name),
        };
        let found = found.ok_or("there is no code for this machine, which can only interpret")?;
        Ok(kiln_codegen_llvm::LlvmCompiler::target(found))
    }

    #[cfg(not(feature = "llvm"))]
    fn target(&self, _level: Option<&str>) -> Result<Target, DeviceProblem> {
        Err("this build has no compiler: it needs the feature `llvm`".into())
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
    fn compiler(&self, _setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        Err("this build has no compiler: it needs the feature `llvm`".into())
    }

    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem> {
        let executor = NativeExecutor::new()
            .with_memory_limits(setup.memory)
            .with_pool(Arc::new(SpinPool::new(setup.threads)));
        Ok(Arc::new(executor))
    }
}
