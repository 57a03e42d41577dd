//! Compiling on first use: each kernel once, whoever asks, and what it cost.

mod constants;
mod numbers;
mod record;
mod stats;
mod store;

pub(crate) use constants::ConstantStore;
pub(crate) use numbers::LaunchNumbers;
pub use record::{CompileReason, CompileRecord};
pub use stats::CompilationStats;
pub(crate) use stats::Counters;
pub use store::CompiledKernel;
pub(crate) use store::{Compiling, KernelIdentity, KernelStore};
