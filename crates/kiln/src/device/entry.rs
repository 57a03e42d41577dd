//! The components of a device, [`DeviceEntry`], and the options passed to it, [`DeviceSetup`].

use kiln_backend::{KernelCompiler, KernelExecutor, MemoryLimits, Target};
use kiln_fusion::FusionOptions;
use std::sync::Arc;

/// Why a device is unavailable.
pub type DeviceProblem = Box<dyn std::error::Error + Send + Sync>;

/// How a device is made: [`Device::register`](crate::Device::register) adds one under its key.
///
/// Models with the same device and the same options share one compiler and one executor.
pub trait DeviceEntry: Send + Sync {
    /// Its key: lower-case letters, digits and `-`, starting with a letter. Always the same.
    fn key(&self) -> &str;

    /// The names of the levels that it can compile for here, lowest first. Empty if there is only one way to compile.
    fn levels(&self) -> Vec<String> {
        Vec::new()
    }

    /// The target at a level, or without one. It is part of every key of compiled code, so no other device may have the
    /// same target unless their code is interchangeable. Called whenever a model is loaded, so it should be fast.
    ///
    /// # Errors
    /// When there is no such device here, or no such level.
    fn target(&self, level: Option<&str>) -> Result<Target, DeviceProblem>;

    /// Its compiler.
    ///
    /// # Errors
    /// When it is unavailable.
    fn compiler(&self, setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem>;

    /// Its executor. It is called once per runtime, and each executor is separate; executors of one device should recognise
    /// each other's memory.
    ///
    /// # Errors
    /// When it is unavailable.
    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem>;

    /// The limits of its kernels (ops and buffers), and the cost rates that fusion uses. It is part of the keys of stored
    /// programs. Its `facts` and `limits` are replaced by those of the plan and of the user's options.
    fn fusion(&self) -> FusionOptions {
        FusionOptions::new()
    }
}

/// A compiler that this build does not have, but whose code is in stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBy {
    /// Its version, if a store records one.
    pub version: Option<String>,
}

/// The options of a model that concern its device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceSetup {
    /// The target, as the entry returned it.
    pub target: Target,
    /// How many host threads calls may use.
    pub threads: usize,
    /// How many threads compile, at least 1.
    pub compile_threads: usize,
    /// How much memory calls may take at one time.
    pub memory: MemoryLimits,
    /// Whether 3 x 3 convolutions may use Winograd's F(4x4, 3x3).
    pub fewer_products: bool,
    /// If this build has no compiler for the device: the compiler that made the code in its stores.
    pub stored_by: Option<StoredBy>,
    /// Where kernels are compiled.
    #[cfg(feature = "llvm")]
    pub compiler: crate::Compiler,
    /// Limits of each compile in a worker process.
    #[cfg(feature = "llvm")]
    pub compile_limits: kiln_compile_worker::CompileLimits,
}
