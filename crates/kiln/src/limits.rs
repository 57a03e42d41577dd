//! Every limit a user may set, in one place.
//!
//! One field per layer, each the limits struct of the crate that enforces it. They are passed down explicitly: no layer
//! reads a limit from anywhere else. The book's page on limits has a row for each, which `cargo xtask tidy` checks; so
//! every type here is written with its crate.

use crate::machine_memory;

/// When to give up, rather than take all memory or run for ever.
///
/// ```
/// let mut limits = kiln::Limits::default();
/// limits.run.live_bytes = 1 << 30;
/// let options = kiln::Options::new().limits(limits);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Limits of reading and importing an ONNX model.
    #[cfg(feature = "onnx")]
    pub onnx: kiln_onnx::Limits,
    /// Limits of each compile in a worker process: see [`Options::compiler`](crate::Options::compiler).
    #[cfg(feature = "llvm")]
    pub compile: kiln_compile_worker::CompileLimits,
    /// Limits of reading a graph's text.
    pub text: kiln_ir::text::TextLimits,
    /// Limits of a graph's table of sizes, and of proofs about them.
    pub dims: kiln_symbolic_shape::DimLimits,
    /// Limits of planning: how large a kernel may grow, and how much work may go into a plan.
    pub fusion: kiln_fusion::FusionLimits,
    /// Limits of each call.
    pub run: kiln_interpreter::InterpretLimits,
    /// Memory that the arenas, results and scratch of calls may take at one time, for all models that share kernels: nine
    /// tenths of what the machine has, or the control group that the process is in.
    pub memory: kiln_backend::MemoryLimits,
}

impl Default for Limits {
    fn default() -> Self {
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
        }
    }
}

impl Limits {
    /// Those of reading a text.
    pub(crate) fn of_reading(&self) -> kiln_ir::text::ReadLimits {
        kiln_ir::text::ReadLimits::new(self.text, self.dims.clone())
    }
}
