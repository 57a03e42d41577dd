//! All limits that a user can set.
//!
//! There is one field per layer, each the limits struct of the crate that enforces it. Limits are passed down
//! explicitly: no layer reads a limit from anywhere else. The book's page on limits has a row for each, which `cargo
//! xtask tidy` checks; for that reason every type here is written with its crate's path.

use crate::machine_memory;
use kiln_lazy_runtime::RuntimeOptions;

/// When to give up, rather than use all memory or run forever.
///
/// ```
/// use kiln::{Limits, MemoryLimits, Options};
///
/// let mut limits = Limits {
///     memory: MemoryLimits::new().with_total_bytes(2 << 30).with_kept_bytes(256 << 20),
///     ..Limits::default()
/// };
/// limits.run.live_bytes = 1 << 30;
/// let options = Options::new().limits(limits);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    /// Limits of reading and importing an ONNX model.
    #[cfg(feature = "onnx")]
    pub onnx: kiln_onnx::Limits,
    /// Limits of each compile in a worker process: see [`Compiling::compiler`](crate::Compiling::compiler).
    #[cfg(feature = "llvm")]
    pub compile: kiln_compile_worker::CompileLimits,
    /// Limits of reading a graph's text.
    pub text: kiln_ir::text::TextLimits,
    /// Limits of a graph's table of sizes, and of proofs about them.
    pub dims: kiln_symbolic_shape::DimLimits,
    /// Limits of planning: how large a kernel may grow, and how much work a plan may take.
    pub fusion: kiln_fusion::FusionLimits,
    /// Limits of each call.
    pub run: kiln_interpreter::InterpretLimits,
    /// Memory that the arenas, results and scratch of calls may use at one time, and how much of it is kept for later
    /// calls, over all models that share kernels: nine tenths of the memory of the machine, or of the control group that
    /// the process is in. A call that would use more ends with an error of kind [`Resource`](crate::ErrorKind::Resource).
    pub memory: kiln_backend::MemoryLimits,
    /// How many compiled kernels are kept in memory, and how many bytes they may take, over all models that share kernels:
    /// 10,000 and 1 GiB. The least recently used are evicted first, unless a launch plan holds them; an evicted kernel is
    /// read from disk when it is needed again, or recompiled.
    pub kernels: kiln_kernel_cache::LruLimits,
    /// For how many combinations of sizes a part of a model keeps its launch plan: the 1024 used last. A call with other
    /// sizes plans first, which takes some microseconds per step. At least 1.
    pub launch_plans: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let of_runtimes = RuntimeOptions::new();
        Self {
            #[cfg(feature = "onnx")]
            onnx: kiln_onnx::Limits::default(),
            #[cfg(feature = "llvm")]
            compile: kiln_compile_worker::CompileLimits::default(),
            text: kiln_ir::text::TextLimits::default(),
            dims: kiln_symbolic_shape::DimLimits::default(),
            fusion: kiln_fusion::FusionLimits::default(),
            run: kiln_interpreter::InterpretLimits::default(),
            memory: kiln_backend::MemoryLimits::DEFAULT
                .with_total_bytes(machine_memory::default_limit()),
            kernels: of_runtimes.cache.memory,
            launch_plans: of_runtimes.launch_plans.get(),
        }
    }
}

impl Limits {
    /// The limits on reading a text.
    pub(crate) fn of_reading(&self) -> kiln_ir::text::ReadLimits {
        kiln_ir::text::ReadLimits::new(self.text, self.dims.clone())
    }
}
