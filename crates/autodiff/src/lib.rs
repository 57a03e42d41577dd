//! Automatic differentiation of graphs.
//!
//! [`differentiate`] implements reverse mode as a graph-to-graph transformation. It takes a graph and a choice of
//! outputs and inputs, and returns a *joint* graph, which computes the outputs and their gradients over one table of
//! sizes. The joint graph is an ordinary graph of ordinary ops: the interpreter, the passes, fusion and every backend
//! handle it unchanged, and it can be differentiated again. [`tangents`] is forward mode, implemented by transposing
//! reverse mode.
//!
//! | you want to | use |
//! |---|---|
//! | gradients of outputs with respect to inputs | [`differentiate`] |
//! | a forward and a backward graph, and what is saved between them | [`partition()`] |
//! | gradients in a graph that is being built | [`append_gradients`] |
//! | a Jacobian-vector product | [`tangents`] |
//! | a gradient for a custom op | [`GradientRules::register`] |
//! | to treat a value as a constant | the scalar function `stop_gradient` |
//!
//! Conventions: elements that tie for the maximum or minimum of a reduction share the cotangent equally; if the two
//! operands of an element-wise maximum are equal, the cotangent goes to the first, as the function's definition states.
//! Where masking makes a cotangent zero, an infinite derivative does not turn it into NaN.
//!
//! ```
//! use kiln_autodiff::{GradientRequest, differentiate};
//! use kiln_ir::BlobMap;
//! use kiln_shape_inference::read_graph;
//!
//! let graph = read_graph("
//! graph @main(%x: f32[N]) -> f32[] {
//!   %squares = square %x
//!   %sum = reduce %squares {function = sum, axes = [0]}
//!   return %sum
//! }", &BlobMap::new()).map_err(|error| error.to_string())?;
//! let joint = differentiate(&graph, &GradientRequest::of_scalar(0, &[0])).map_err(|error| error.to_string())?;
//! assert_eq!(joint.graph.outputs().len(), 2);
//! assert_eq!(joint.gradients, [1]);
//! # Ok::<(), String>(())
//! ```

#![forbid(unsafe_code)]

mod error;

mod activity;
mod adjoint;
mod check;
mod context;
mod copy;
mod edges;
mod emit;
mod extend;
mod joint;
mod masks;
mod partition;
mod size_hints;
mod tangents;
mod widen;

mod control;
mod rules;
mod sweep;

pub use check::{
    CheckError, CheckOptions, Evaluate, GradientReport, InputCheck, WorstElement, check_gradients,
};
pub use error::GradientError;
pub use extend::append_gradients;
pub use joint::{Cotangents, GradientRequest, JointGraph, differentiate, differentiate_with};
pub use partition::{Partition, PartitionOptions, Rematerialization, partition};
pub use rules::{CUSTOM_GRADIENTS, CustomGradient, GradientContext, GradientRules};
pub use tangents::{TangentGraph, tangents, tangents_with};
pub use widen::widened;

#[cfg(test)]
mod tests;

/// The result of emitting a part of a gradient.
pub(crate) type Result<T, E = GradientError> = std::result::Result<T, E>;
