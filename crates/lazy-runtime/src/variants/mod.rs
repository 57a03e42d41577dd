//! Variants: kernels for exactly the sizes that take most time, made behind the back of calls and kept where they win.
//!
//! A plan knows how long its kernels take ([`Heat`]). One that took long enough at its sizes, or whose sizes the user says
//! are likely, is compiled once more with those sizes in place of symbols. Then real calls take turns with both
//! ([`Trial`]); the variant stays where it wins by a margin, and is remembered as useless where not. A plan names the code
//! of each of its steps, so which one a step takes costs nothing when it runs, and no other sizes know of it.
//!
//! *Invariants.* No call waits for a variant. A kernel has few, a process some more; what is refused is counted and said.

mod heat;
mod job;
mod options;
mod record;
mod registry;
mod trial;

pub(crate) use heat::{Heat, HeatGroups, Hot, Stale};
pub(crate) use job::Making;
pub use options::VariantOptions;
pub use record::{VariantFate, VariantReason, VariantRecord};
pub(crate) use registry::{Asked, Begun, Stage, Variant, Variants};
pub(crate) use trial::{Trial, Turn};
