//! A candidate: ops that may become one kernel, examined as a whole.
//!
//! [`examine`] alone decides whether a fusion is legal; region growth calls nothing else for that. It proves that sizes
//! are equal (or records the required plan fact), determines where each value is read, and decides from that whether
//! one kernel can compute everything in its class.

mod access;
mod emission;
mod index;
mod judge;
mod refusal;
mod reshape;
mod walk;

pub(crate) use emission::count_nodes;
pub use refusal::Refusal;
pub(crate) use refusal::{describe_op, with_article};

use std::collections::BTreeSet;

use kiln_ir::{Graph, OpId, ValueId};
use kiln_kernel::Class;

use crate::op_kind::unit_cost;
use crate::sizes::SizeQueries;

/// The properties of a candidate that can be one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// The class of its kernel.
    pub(crate) class: Class,
    /// The numbers of the plan facts it depends on.
    pub(crate) facts: BTreeSet<usize>,
    /// Simple operations per point, with stages weighing more.
    pub(crate) complexity: u64,
}

/// Whether these ops, with these results read by others, can be one kernel.
pub(crate) fn examine(
    graph: &Graph,
    sizes: &SizeQueries<'_>,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
) -> Result<Profile, Refusal> {
    let nodes = count_nodes(graph, ops, outputs, sizes.limits().kernel_nodes);
    let counted = nodes
        .as_ref()
        .map_or(sizes.limits().kernel_nodes, |nodes| *nodes);
    sizes.budget().spend(1 + counted as u64);
    nodes?;
    let walk = walk::walk(graph, sizes, ops, outputs)?;
    let class = judge::judge(&walk)?;
    let places = |value: &ValueId| walk.demands.get(value).map_or(0, Vec::len) as u64;
    let cost = ops.iter().map(|&op| {
        let data = graph.op(op);
        let places: u64 = data.results.iter().map(places).sum();
        unit_cost(&data.op).saturating_mul(places)
    });
    let complexity = cost.fold(4 * walk.stages.len() as u64, u64::saturating_add);
    Ok(Profile {
        class,
        facts: walk.facts.into_inner(),
        complexity,
    })
}
