//! Lowers a region of graph ops to one kernel.
//!
//! Lowering is demand-driven, without patterns: a kernel computes what its outputs demand. When a value is demanded at
//! a point, its op returns an expression over its operands at other points: index maps rewrite indices, element-wise
//! ops become nodes, and a reduction becomes a stage that its consumers read. A value demanded twice at the same
//! indices is one node.
//!
//! Outer axes are the axes of the outputs that every stage depends on; an axis that some stage does not depend on (the row
//! of a softmax) becomes an inner axis of the store, and stages that are read along it become arrays. They are determined
//! by lowering each output once with all its axes outer.
//!
//! f16 and bf16 are computed in f32, with casts at loads and stores.

mod error;
mod outer_axes;
mod prepare;
mod producers;

mod context;
mod guard;
mod index;
mod load;
mod shared;
mod stage;

mod dispatch;
mod elementwise;

mod broadcast;
mod concat;
mod pad;
mod random;
mod reshape;
mod slice;
mod sources;

mod gather;
mod scatter;

mod contraction;
mod cumulate;
mod recurrence;
mod reduction;

mod arg_pool;
mod conv_transpose;
mod pool;
mod resize;
mod resize_taps;
mod window;

pub use error::LowerError;
pub(crate) use recurrence::size_ops;

use kiln_ir::{Graph, OpId, ValueId};
use kiln_kernel::{BufferId, Kernel};
use kiln_symbolic_shape::{DimId, PlanFact, Predicate};

/// Ops that become one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// The ops, in the graph's order.
    pub ops: &'a [OpId],
    /// The kernel's outputs: results of these ops.
    pub outputs: &'a [ValueId],
    /// Equalities of sizes that the kernel may assume.
    pub facts: &'a [PlanFact],
    /// The kernel's name.
    pub name: &'a str,
}

/// A kernel, and its connection to the graph.
#[derive(Clone, Debug)]
pub struct LoweredKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// The graph's value for each of the kernel's buffers: inputs, constants and outputs.
    pub operands: Vec<ValueId>,
    /// The graph's size that is the value of each of the kernel's symbols, in the order of the kernel's table.
    pub symbols: Vec<DimId>,
    /// Copy this value into this (`inout`) buffer before the kernel runs.
    pub initialise: Option<(BufferId, ValueId)>,
    /// The requirements on sizes, over the *kernel's* table, with their reasons: to be checked when sizes are bound.
    pub requirements: Vec<(Predicate, String)>,
}

/// Lowers a region to one kernel. The region's plan facts are assumed; the result is not verified.
///
/// # Errors
/// Explains why the region cannot be one kernel.
pub fn lower(graph: &Graph, region: &Region<'_>) -> Result<LoweredKernel, LowerError> {
    outer_axes::lower_region(graph, region)
}

#[cfg(test)]
mod tests;
