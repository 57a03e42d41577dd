//! Runs programs: launch plans, compiling on first use, the task pool.

#![forbid(unsafe_code)]

mod clock;
mod compile;
mod error;
mod options;
mod plan;
mod planner;
mod pool;
mod profile;
mod program;
mod run;
mod runtime;

pub use clock::{Clock, SystemClock};
pub use compile::{CompilationStats, CompileReason, CompileRecord, CompiledKernel};
pub use error::RuntimeError;
pub use options::RuntimeOptions;
pub use planner::Planner;
pub use pool::SpinPool;
pub use profile::StepProfile;
pub use program::CompiledProgram;
pub use runtime::Runtime;
