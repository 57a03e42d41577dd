//! The backend interface: kernel compilers, the artifacts they produce, and the devices that run them.
//!
//! A backend is a [`KernelCompiler`], which compiles verified kernels to [`Artifact`]s, and a [`KernelExecutor`], a
//! device that loads artifacts and launches them in [`Execution`]s. A [`Quantity`] is a number that a launch needs and
//! that depends on its sizes; [`stable_key`] identifies compiled code by everything that determines it.
//!
//! *Invariants.* Nothing here is specific to one backend, and nothing runs code. Keys depend on text alone.

#![deny(unsafe_code)]

mod artifact;
mod builtin;
mod compile;
mod compiler_wrapper;
mod condition;
mod execute;
mod executor_wrapper;
mod isa_level;
mod key;
mod memory_pool;
mod numbers;
mod pack;
mod pool;
mod quantity;
mod resident;
mod schedule;

pub use artifact::{Artifact, ArtifactBuffer, ArtifactParts, Phase};
pub use builtin::{Builtin, BuiltinOperand};
pub use compile::{
    Candidate, CompileError, CompileObserver, CompilePhase, KernelCompiler, Listing,
    PreferredLayout, Unobserved,
};
pub use compiler_wrapper::CompilerWrapper;
pub use condition::Condition;
pub use execute::{
    BatchKey, ExecuteError, Execution, Fault, FaultCause, KernelExecutor, Launch, LoadedKernel,
    Memory, MemorySlice, StopSignal,
};
pub use executor_wrapper::ExecutorWrapper;
pub use isa_level::{IsaLevel, UnknownIsaLevel};
pub use key::{Key, KeyError, KeyFields, stable_key};
pub use memory_pool::{MemoryLimits, MemoryPool, MemoryStats};
pub use numbers::{LaunchNumbers, NumbersError, PhaseNumbers};
pub use pack::{PackAxis, PackError, PackSpec};
pub use pool::{CallerOnly, Job, TaskPool};
pub use quantity::{LaunchContext, Quantities, Quantity, QuantityError};
pub use resident::Resident;
pub use schedule::{FALLBACK_SCHEDULE, Schedule, Target};
