//! Compile workers: processes that run LLVM outside the calling process.
//!
//! A program that uses [`Compiler::worker`](crate::Compiler::worker) begins with [`main_if_worker`]:
//!
//! ```
//! use kiln::{Compiler, Compiling, Options};
//!
//! // First in `main`.
//! kiln::compile_worker::main_if_worker();
//! let options = Options::new().compiling(Compiling {
//!     compiler: Compiler::worker(),
//!     ..Compiling::default()
//! });
//! # let _ = options;
//! ```

use kiln_backend::{FALLBACK_SCHEDULE, KernelCompiler, Schedule, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::{text, verify};

pub use kiln_compile_worker::{CompileLimits, WorkerError, WorkerProgram};

/// Compiled by a worker before its first request, so that LLVM has started by then.
const FIRST: &str = "kernel @prepare(%x: in f32[N], %y: out f32[N]) {
  outer i < N
  store %y[i] = %x[i] + %x[i]
}";

/// Serves as a compile worker and does not return if this process was started as one; returns at once otherwise.
///
/// Call it first in `main`, before files are opened and threads started.
pub fn main_if_worker() {
    kiln_compile_worker::main_if_worker(|| {
        kiln_codegen_llvm::set_crash_report(|report| {
            use std::io::Write as _;
            // The parent prints this message, with the kernel that it was for.
            let _ = writeln!(std::io::stderr(), "LLVM aborted: {}", report.message);
        });
        let compiler = LlvmCompiler::new();
        prepare(&compiler);
        compiler
    });
}

/// Starts LLVM. An error here is ignored: it recurs, and is reported, in a request.
fn prepare(compiler: &LlvmCompiler) {
    if let Some(kernel) = text::read(FIRST)
        .ok()
        .and_then(|kernel| verify(kernel).ok())
    {
        let schedule = Schedule::new(FALLBACK_SCHEDULE);
        let _ = compiler.compile(&kernel, &compiler.host(), &schedule, &mut Unobserved);
    }
}
