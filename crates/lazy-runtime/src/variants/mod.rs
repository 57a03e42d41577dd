//! Variants: kernels specialised to the exact sizes that take the most time, compiled in the background and kept if
//! they are faster.
//!
//! A plan measures how long its kernels take ([`Heat`]). A kernel that has taken long enough at its sizes, or whose
//! sizes the user marked as likely, is compiled again with those sizes in place of symbols. Real calls then interleave
//! both ([`Trial`]); the variant is kept if it wins by a margin, and is otherwise remembered as not worthwhile. A plan
//! stores the code of each step, so the choice costs nothing at run time and does not affect other sizes.
//!
//! *Invariants.* No call waits for a variant. Variants are limited per kernel and per process; each refusal is counted
//! and reported.

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
