//! Graph passes: they simplify a graph, and compute in advance what does not depend on a call.
//!
//! A pass is a function from a graph to an equivalent graph. [`optimize`] runs all passes, in a fixed order, until
//! nothing changes; each can also be called alone.
//!
//! | pass | what it does |
//! |---|---|
//! | [`canonicalize`] | rewrites each computation to one form; removes no-op data movement |
//! | [`simplify_algebra`] | applies algebraic laws that hold for every bit |
//! | [`fold_constants`] | evaluates ops on constants, within a byte budget |
//! | [`freeze_constants`] | chooses the layout of weights; folds batch norms into weights |
//! | [`resolve_bindings`] | replaces symbols bound to data by sizes, where the data are known |
//! | [`inline_control_flow`] | inlines branches and loops whose control flow is known |
//! | [`hoist_from_loops`] | hoists loop-invariant ops; computes products over slices for all iterations at once |
//! | [`sink_constants`] | moves captured constants into regions |
//! | [`eliminate_common_subexpressions`] | removes duplicate computations |
//! | [`eliminate_dead_ops`] | removes unused ops |
//!
//! Sizes stay symbols throughout: a rule that needs two sizes to be equal queries the prover, and a failed proof leaves the
//! op unchanged. Passes use contract facts, never plan facts or hints.
//!
//! ```
//! use kiln_ir::{BlobMap, text};
//! use kiln_passes::{PassOptions, optimize};
//!
//! let graph = text::read("
//! graph @main(%x: f32[B, 8]) -> f32[B, 8] {
//!   %1: f32[8, B] = transpose %x {permutation = [1, 0]}
//!   %2: f32[B, 8] = transpose %1 {permutation = [1, 0]}
//!   %3: f32[B, 8] = relu %2
//!   return %3
//! }", &BlobMap::new()).expect("the text is a graph");
//! let (graph, report) = optimize(graph, &mut PassOptions::default())?;
//! assert_eq!(graph.n_ops(), 1);
//! assert!(report.converged);
//! # Ok::<(), kiln_passes::PassError>(())
//! ```
#![forbid(unsafe_code)]

mod pipeline;

mod canonicalize;
mod eliminate_common_subexpressions;
mod eliminate_dead_ops;
mod fold_constants;
mod freeze_constants;
mod hoist_from_loops;
mod inline_control_flow;
mod resolve_bindings;
mod simplify_algebra;
mod sink_constants;

mod constants;
mod context;
mod error;
mod fold;
mod op_key;
mod order_ops;
mod peephole;
mod rebuild;
mod replace_symbols;
mod report;
mod sizes;
mod widened_weights;

#[cfg(test)]
mod random_graphs;
#[cfg(test)]
mod testing;

pub use canonicalize::canonicalize;
pub use context::{Changed, DEFAULT_FOLD_BUDGET, PassContext};
pub use eliminate_common_subexpressions::eliminate_common_subexpressions;
pub use eliminate_dead_ops::eliminate_dead_ops;
pub use error::PassError;
pub use fold_constants::{EXPANSION_LIMIT, WORK_LIMIT, fold_constants};
pub use freeze_constants::{GROWTH_LIMIT, freeze_constants};
pub use hoist_from_loops::hoist_from_loops;
pub use inline_control_flow::inline_control_flow;
pub use pipeline::{Dump, PassOptions, ROUND_LIMIT, optimize, pass_names};
pub use report::{PassRun, Report};
pub use resolve_bindings::resolve_bindings;
pub use simplify_algebra::simplify_algebra;
pub use sink_constants::sink_constants;
