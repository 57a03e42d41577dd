//! Which operators become one kernel, and why; lowering to kernels.

#![forbid(unsafe_code)]

mod plan;

mod candidate;
mod cost;
mod grow;
mod name;
mod op_kind;
mod sizes;
mod subgraph;

mod benefit;
mod error;
mod options;

pub mod lower;

pub use benefit::FusionBenefit;
pub use candidate::Refusal;
pub use error::FusionError;
pub use lower::{LowerError, LoweredKernel, Region};
pub use options::FusionOptions;
pub use plan::{FusionNode, FusionNodeId, FusionPlan, NearMiss, NodeKind, plan};
