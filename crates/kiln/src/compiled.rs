//! The compiled path: a graph planned, and a runtime that compiles and runs it.
//!
//! Not here: calls by name, and the choice between this path and the interpreter.

#[cfg(feature = "llvm")]
mod announce;
mod planner;
#[cfg(feature = "llvm")]
mod runtime;
#[cfg(feature = "llvm")]
mod stored;

pub(crate) use planner::GraphPlanner;
#[cfg(feature = "llvm")]
pub(crate) use runtime::{SharedRuntime, runtime_for};
#[cfg(feature = "llvm")]
pub(crate) use stored::ProgramStore;
