//! The values that a set of ops provides to the rest of a graph.

use std::collections::BTreeSet;

use kiln_ir::{Graph, OpId, ValueId};

/// The results of some ops that are read by other ops or by the caller.
pub(crate) fn outputs(graph: &Graph, ops: &BTreeSet<OpId>) -> Vec<ValueId> {
    let results: Vec<ValueId> = ops
        .iter()
        .flat_map(|&op| graph.op(op).results.iter().copied())
        .collect();
    let mut read: BTreeSet<ValueId> = BTreeSet::new();
    for (op, data) in graph.ops() {
        if !ops.contains(&op) {
            read.extend(&data.operands);
        }
        for &region in &data.regions {
            read.extend(&graph.region(region).results);
        }
    }
    read.extend(graph.outputs());
    results
        .into_iter()
        .filter(|value| read.contains(value))
        .collect()
}
