//! Compiles kernels to object code for CPUs with LLVM.
//!
//! [`LlvmCompiler`] takes a verified kernel and returns an artifact: a relocatable object and the metadata to launch
//! it. The object calls only `memcpy`, `memmove` and `memset`, so it runs without LLVM.
//!
//! - [`IsaLevel`](kiln_backend::IsaLevel): the instruction-set level of the code, detected from the processor's features.
//! - [`kiln_schedule_cpu`]: the vectorised loops of a kernel's stages. `lower` turns these loops into instructions.
//! - `scalar_ops` and `math`: instructions for each scalar operation, for any number of lanes; every function has a
//!   stated error bound.
//! - `emit`, `module`, `abi`, `session`: instructions, functions, the kernel ABI, and the rules of LLVM's API. Every
//!   module passes LLVM's verifier; errors that LLVM reports are typed ([`LlvmError`]); if LLVM aborts the process, a
//!   [`CrashReport`] names the kernel.
//!
//! ```
//! use kiln_codegen_llvm::LlvmCompiler;
//! use kiln_backend::{KernelCompiler, Unobserved};
//! use kiln_kernel::{text, verify};
//!
//! let source = "kernel @double(%x: in f32[N], %y: out f32[N]) {
//!   outer i < N
//!   store %y[i] = %x[i] + %x[i]
//! }";
//! let kernel = text::read(source).map_err(|errors| errors.render(source))?;
//! let kernel = verify(kernel)?;
//! let (compiler, target) = (LlvmCompiler::new(), LlvmCompiler::new().host());
//! let best = &compiler.schedules(&kernel, &target)[0].schedule;
//! let artifact = compiler.compile(&kernel, &target, best, &mut Unobserved)?;
//! assert_eq!(artifact.phases.len(), 1);
//! assert!(artifact.code.starts_with(b"\x7fELF"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod crash;
mod error;
mod target;

mod abi;
mod emit;
mod module;
mod object;
mod session;
mod setup;
mod spills;

mod math;
mod scalar_ops;

mod lower;

mod compiler;

#[cfg(test)]
mod testing;

pub use compiler::LlvmCompiler;
pub use crash::{CrashReport, set_crash_report};
pub use error::LlvmError;
pub use math::{BUDGETS, Budget};
pub use session::Effort;
