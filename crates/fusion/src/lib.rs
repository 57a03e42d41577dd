//! Operator fusion: decides which ops share a kernel, records why, and lowers them to the kernel IR.
//!
//! [`plan`] takes a graph that has been through the passes and assigns every op to one node of a [`FusionPlan`]: a
//! kernel of several ops, a view, a builtin or a control step. A region of ops grows as long as one kernel is proved
//! able to compute it, while sizes are still symbols. Two sizes count as equal if they are proved equal, or by a plan
//! fact, which is stored with the node and checked against the actual sizes; otherwise the ops are not fused, which is
//! recorded as a near miss.
//!
//! | you want to | use |
//! |---|---|
//! | plan a graph | [`plan`] |
//! | see which ops were fused | the plan's `Display` |
//! | find out why two ops were or were not fused | [`FusionPlan::explain`] |
//! | estimate the benefit of fusing ops | [`FusionCandidateAnalyzer`], [`FusionBenefit`] |
//! | compare the cost model with measurements | [`Effort`], [`WorkKind`] |
//! | plan for a device other than a CPU | [`FusionOptions::with_rates`], [`Rates`] |
//! | check the shapes inside a node | [`FusionNode::validate_fusion`] |
//! | lower a set of ops to a kernel | [`lower::lower`] |
//!
//! The kernel IR is defined in `kernel`; buffers are placed in `program`.
//!
//! ```
//! use kiln_fusion::{FusionOptions, plan};
//! use kiln_ir::BlobMap;
//! use kiln_shape_inference::read_graph;
//!
//! let graph = read_graph("
//! graph @layer(%x: f32[M, K], %w: f32[K, N], %b: f32[N]) -> f32[M, N] {
//!   %1 = matmul %x, %w
//!   %2 = add %1, %b
//!   %3 = relu %2
//!   return %3
//! }", &BlobMap::new()).expect("the text is a graph");
//! let plan = plan(&graph, &FusionOptions::new())?;
//! assert_eq!(plan.count("kernel"), 1);
//! let ops: Vec<_> = graph.ops().map(|(op, _)| op).collect();
//! let why = plan.explain(&graph, ops[0], ops[2])?;
//! assert!(why.together.is_some());
//! # Ok::<(), kiln_fusion::FusionError>(())
//! ```

#![forbid(unsafe_code)]

mod plan;

mod candidate;
mod cost;
mod fact_closure;
mod grow;
mod name;
mod op_kind;
mod sizes;
mod subgraph;

mod analyzer;
mod explain;
mod generator;

mod benefit;
mod budget;
mod error;
mod limits;
mod options;

pub mod lower;

#[cfg(test)]
mod tests;

pub use analyzer::FusionCandidateAnalyzer;
pub use benefit::FusionBenefit;
pub use candidate::Refusal;
pub use cost::{Effort, Rates, WorkKind};
pub use error::FusionError;
pub use explain::{Explanation, Subject};
pub use limits::FusionLimits;
pub use lower::{LowerError, LoweredKernel, Region};
pub use options::FusionOptions;
pub use plan::{FusionNode, FusionNodeId, FusionPlan, NearMiss, NodeKind, plan};
pub use sizes::likely_sizes;
