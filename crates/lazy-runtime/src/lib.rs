//! Runs programs: binds symbols to sizes, compiles kernels when they are first needed, and launches them on a device.
//!
//! A [`Runtime`] has a compiler, a device and threads, each behind a trait, and names no backend. A [`CompiledProgram`]
//! runs on it, and can be called from any number of threads at once. A call looks up the launch plan for its sizes (by
//! a hash of the inputs' dims) and runs its steps; a plan is built, and its kernels chosen and compiled, once, when its
//! sizes first occur. If a fact that the program was planned under does not hold, the [`Planner`] builds another plan,
//! which is counted. There are no silent fallbacks: every interpreted step and every skipped schedule is counted in
//! [`CompilationStats`] or has a [`CompileRecord`].
//!
//! | you want to | use |
//! |---|---|
//! | run a program | [`CompiledProgram::run`] |
//! | compile before a call needs it | [`CompiledProgram::precompile`], [`ShapeVariantGenerator`], [`ShapeProfile`] |
//! | return outputs in host or device memory | [`CompiledProgram::with_outputs`], [`OutputPlacement`] |
//! | cancel a call | [`CompiledProgram::run_with`], [`Cancellation`] |
//! | measure each step | [`CompiledProgram::run_profiled`] |
//! | find out what was compiled, and why | [`Runtime::compile_records`], [`Runtime::stats`] |
//! | provide threads for launches | [`SpinPool`] |

#![deny(unsafe_code)]

mod ahead;
mod call;
mod calls;
mod clock;
mod compile;
mod context;
mod detached;
mod donate;
mod error;
mod layouts;
mod manager;
mod options;
mod parts;
mod per_thread;
mod plan;
mod planner;
mod plans;
mod pool;
mod program;
mod recorder;
mod run;
mod runtime;
mod step_profile;
mod sync;
mod variants;
mod watch;

pub use ahead::{
    CallMemory, LiveValue, ProfileError, ProfiledShapes, ShapeProfile, ShapeVariantGenerator,
};
pub use call::{CallControl, CallOptions, Cancellation};
pub use clock::{Clock, SystemClock};
pub use compile::{CompilationStats, CompileBudget, CompileReason, CompileRecord, maker_of};
pub use donate::{DonationFate, Donations};
pub use error::RuntimeError;
pub use layouts::PreferredLayouts;
pub use options::{CompilePolicy, OutputPlacement, RuntimeOptions, UnknownPolicy};
pub use planner::Planner;
pub use pool::SpinPool;
pub use program::CompiledProgram;
pub use runtime::Runtime;
pub use step_profile::StepProfile;
pub use variants::{VariantFate, VariantOptions, VariantReason, VariantRecord};
