//! Compilation on first use: each kernel once, on separate threads; and the records of its cost.

mod budget;
mod codec;
mod constants;
mod failure;
mod identity;
mod obtain;
mod packed;
mod patience;
mod queue;
mod record;
mod report;
mod stats;
mod store;
mod workers;

pub use budget::CompileBudget;
pub(crate) use constants::{ConstantPart, ConstantStore};
pub(crate) use failure::KernelFailure;
pub use identity::maker_of;
pub(crate) use identity::{KernelIdentity, binding_of};
pub(crate) use obtain::{Chosen, NoCode, Obtaining, Wanted};
pub(crate) use packed::PackedStore;
pub(crate) use patience::{Patience, Permission};
pub(crate) use queue::Urgency;
pub use record::{CompileReason, CompileRecord};
pub use stats::CompilationStats;
pub(crate) use stats::Counters;
pub(crate) use store::{Asked, Choice, CompiledKernel, Kernels};
pub(crate) use workers::Workers;
