//! The number of operations of a value, for choices that depend on it.

use kiln_kernel::analysis::{arithmetic_operations, expression_nodes};
use kiln_kernel::{NodeId, VerifiedKernel};

/// Expressions of at most this many nodes are computed faster than memory stores their results.
const PLAIN_LIMIT: usize = 32;

/// The weight of an operation of several instructions.
const MANY: usize = 6;

/// Whether a value takes only a few operations of an instruction or two each, so that it is bound by memory.
pub fn is_plain(kernel: &VerifiedKernel, value: NodeId) -> bool {
    let nodes = expression_nodes(kernel, &[value]);
    nodes.len() <= PLAIN_LIMIT
        && nodes
            .iter()
            .all(|&node| arithmetic_operations(kernel, node).is_some())
}

/// The number of operations that a value takes: index arithmetic does not count, and a function counts as several.
pub fn n_operations(kernel: &VerifiedKernel, value: NodeId) -> usize {
    let nodes = expression_nodes(kernel, &[value]).into_iter();
    nodes
        .map(|node| arithmetic_operations(kernel, node).unwrap_or(MANY))
        .sum()
}
