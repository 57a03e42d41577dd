//! Kernels to object code for CPUs, through LLVM.

mod crash;
mod error;
mod target;

mod abi;
mod emit;
mod module;
mod object;
mod session;

mod math;
mod scalar_ops;

mod lower;
mod schedule;

mod compiler;

#[cfg(test)]
mod testing;

pub use compiler::{BACKEND, LlvmCompiler};
pub use crash::{CrashReport, set_crash_report};
pub use error::LlvmError;
pub use target::{IsaLevel, UnknownIsaLevel};
