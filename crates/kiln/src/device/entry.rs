//! What a device is made of: [`DeviceEntry`], and what the options say to it, [`DeviceSetup`].

use kiln_backend::{KernelCompiler, KernelExecutor, MemoryLimits, Target};
use kiln_fusion::FusionOptions;
use std::sync::Arc;

/// Why a device cannot be had.
pub type DeviceProblem = Box<dyn std::error::Error + Send + Sync>;

/// How a device is made: what [`Device::register`](crate::Device::register) adds under a key.
///
/// Models that ask for the same device with the same options share one compiler and one executor.
pub trait DeviceEntry: Send + Sync {
    /// Its key: lower-case letters, digits and `-`, a letter first. The same whenever it is asked for.
    fn key(&self) -> &str;

    /// The levels that it can compile for here, by name, the lowest first. None where there is one way to compile.
    fn levels(&self) -> Vec<String> {
        Vec::new()
    }

    /// What to compile for at a level, or without one. It is part of every key of compiled code, so no other device may have
    /// the same, unless their code may be mixed. Looked at whenever a model is loaded, so this should take no time.
    ///
    /// # Errors
    /// When there is no such device here, or not that level.
    fn target(&self, level: Option<&str>) -> Result<Target, DeviceProblem>;

    /// Its compiler.
    ///
    /// # Errors
    /// When it cannot be had.
    fn compiler(&self, setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem>;

    /// Its executor, for as many runtimes as ask: each is one of its own, and those of one device should know the memory of
    /// each other.
    ///
    /// # Errors
    /// When it cannot be had.
    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem>;

    /// The legal limits of its kernels (ops and buffers), and the rates by which fusion decides what is worth while. It is
    /// part of the keys of stored programs. Its `facts` and `limits` are
    /// replaced by those of the plan and of the user's options.
    fn fusion(&self) -> FusionOptions {
        FusionOptions::new()
    }
}

/// A compiler that is not in this build, whose code stores have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBy {
    /// Its version, where a store says one.
    pub version: Option<String>,
}

/// What the options of a model say to the device that it is to run on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceSetup {
    /// What to compile for, as the entry said.
    pub target: Target,
    /// How many threads of the host calls may use.
    pub threads: usize,
    /// How many threads compile, at least 1.
    pub compile_threads: usize,
    /// How much memory calls may take at one time.
    pub memory: MemoryLimits,
    /// Whether windows of three by three are to be computed with fewer products.
    pub fewer_products: bool,
    /// Where this build has no compiler for the device: the one that made the code of its stores.
    pub stored_by: Option<StoredBy>,
    /// Where kernels are compiled.
    #[cfg(feature = "llvm")]
    pub compiler: crate::Compiler,
    /// Limits of each compile in a worker process.
    #[cfg(feature = "llvm")]
    pub compile_limits: kiln_compile_worker::CompileLimits,
}
