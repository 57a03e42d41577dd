//! Which operators become one kernel, and why; lowering to kernels.
//!
//! [`plan`] takes a graph that went through the passes and puts every op into one node of a
//! [`FusionPlan`]: a kernel of several ops, a view, a builtin, a control step. Regions of ops grow
//! over the graph as long as one kernel can do it all: by proof, over sizes that are still symbols.
//! Two sizes count as equal when they are proved to be, or when a plan fact says so, which is then
//! stored with the node and checked on real sizes; anything else does not fuse, and is remembered as
//! a near miss.
//!
//! | you want to | use |
//! |---|---|
//! | plan a graph | [`plan`] |
//! | see what became one kernel | the plan's `Display` |
//! | know why two ops did, or did not | [`FusionPlan::explain`] |
//! | know what ops in one kernel are worth | [`FusionCandidateAnalyzer`], [`FusionBenefit`] |
//! | hold the cost model against measurements | [`Effort`], [`WorkKind`] |
//! | plan for another device than a CPU | [`FusionOptions::with_rates`], [`Rates`] |
//! | check the shapes inside a node | [`FusionNode::validate_fusion`] |
//! | turn ops into a kernel yourself | [`lower::lower`] |
//!
//! Not here: what a kernel is (`kernel`), and where buffers lie (`program`).
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
