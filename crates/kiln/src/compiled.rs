//! The compiled path: a planned graph, and a runtime that compiles and runs it.
//!
//! Looking up inputs by name, and choosing between this path and the interpreter, are done elsewhere.

#[cfg(all(feature = "native", not(feature = "llvm")))]
mod absent;
#[cfg(feature = "native")]
mod announce;
#[cfg(feature = "native")]
mod bundle;
mod planner;
#[cfg(feature = "native")]
mod runtime;
#[cfg(feature = "native")]
mod stored;

#[cfg(feature = "llvm")]
pub(crate) use bundle::save as save_bundle;
#[cfg(feature = "native")]
pub(crate) use bundle::{Bundled, load as load_bundle};
pub(crate) use planner::GraphPlanner;
#[cfg(feature = "native")]
pub(crate) use runtime::{SharedRuntime, VERSION, runtime_for};
#[cfg(feature = "native")]
pub(crate) use stored::ProgramStore;
