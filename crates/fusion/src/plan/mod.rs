//! A fusion plan: which ops of a graph run together, how, and in which order.
//!
//! Invariants: every op of a region of the graph is in exactly one node; ops in the body of a loop that is one kernel
//! are in that loop's node alone; each node of a region is listed after the nodes it reads and after those that bind
//! its sizes.

mod build;
mod display;
mod fuse;
mod node;

pub use build::plan;
pub use node::{FusionNode, FusionNodeId, NodeKind};

use std::collections::BTreeMap;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use kiln_ir::{OpId, RegionId};
use kiln_symbolic_shape::PlanFact;

use crate::options::FusionOptions;

/// Two ops that would be in one kernel if a fact were known: a candidate for a guarded plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The last op of the first part.
    pub producer: OpId,
    /// The first op of the part that would join it.
    pub consumer: OpId,
    /// The fact that would allow it.
    pub fact: PlanFact,
    /// The obstacle, as printed.
    pub reason: String,
}

/// The decisions of [`plan`](crate::plan()) for a graph.
#[derive(Clone, Debug, Default)]
pub struct FusionPlan {
    pub(crate) graph_name: String,
    pub(crate) nodes: PrimaryMap<FusionNodeId, FusionNode>,
    pub(crate) regions: BTreeMap<RegionId, Vec<FusionNodeId>>,
    pub(crate) node_of: SecondaryMap<OpId, PackedOption<FusionNodeId>>,
    pub(crate) near_misses: Vec<NearMiss>,
    /// Ops that were planned as one kernel until lowering rejected it, and why.
    pub(crate) rejected: Vec<(Vec<OpId>, String)>,
    pub(crate) options: FusionOptions,
    pub(crate) work: u64,
    /// The proof budget of the graph's table, if it was spent.
    pub(crate) spent_proofs: Option<u64>,
}

impl FusionPlan {
    /// Every node; ids are in no particular order.
    pub fn nodes(&self) -> impl Iterator<Item = &FusionNode> {
        self.nodes.values()
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    ///
    /// # Panics
    /// When the id is of another plan.
    pub fn node(&self, id: FusionNodeId) -> &FusionNode {
        &self.nodes[id]
    }

    /// The nodes of a region of the graph, in an order in which they can run.
    pub fn nodes_of(&self, region: RegionId) -> &[FusionNodeId] {
        self.regions.get(&region).map_or(&[], Vec::as_slice)
    }

    /// The node to which an op belongs; for an op in the body of a loop that is one kernel, the loop's node.
    pub fn node_of(&self, op: OpId) -> Option<FusionNodeId> {
        self.node_of.get(op).and_then(|node| node.expand())
    }

    /// How an op is executed.
    pub(crate) fn kind_of(&self, op: OpId) -> Option<&NodeKind> {
        let node = self.node_of(op).and_then(|id| self.nodes.get(id));
        node.map(|node| &node.kind)
    }

    /// The number of nodes of a kind, by its word: `kernel`, `view`, `interpret`.
    pub fn count(&self, kind: &str) -> usize {
        self.nodes()
            .filter(|node| node.kind.as_word() == kind)
            .count()
    }

    /// Joins that would have happened if two sizes had been known to be equal.
    pub fn near_misses(&self) -> &[NearMiss] {
        &self.near_misses
    }

    /// Ops that were planned as one kernel until lowering rejected it, and why; they were then joined differently.
    pub fn rejected(&self) -> &[(Vec<OpId>, String)] {
        &self.rejected
    }

    /// The steps of work spent on it; see [`FusionLimits::plan_work`](crate::FusionLimits::plan_work).
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Whether growing ended because the plan's budget was spent.
    pub fn is_budget_spent(&self) -> bool {
        self.work >= self.options.limits.plan_work
    }

    /// The searches that a spent budget cut short, as printed: the plan is correct, and less was joined than might have
    /// been.
    pub fn cut_short(&self) -> Vec<String> {
        let mut cut = Vec::new();
        if self.is_budget_spent() {
            let limit = self.options.limits.plan_work;
            cut.push(format!(
                "all {limit} steps of planning were spent, so nothing more was joined"
            ));
        }
        if let Some(limit) = self.spent_proofs {
            cut.push(format!(
                "all {limit} steps of proofs about sizes were spent, so little more was proved"
            ));
        }
        cut
    }

    /// The options with which it was made.
    pub fn options(&self) -> &FusionOptions {
        &self.options
    }

    /// Every plan fact that some node depends on, once.
    pub fn facts(&self) -> Vec<PlanFact> {
        let mut facts: Vec<PlanFact> = Vec::new();
        for fact in self.nodes().flat_map(|node| &node.facts) {
            if !facts.contains(fact) {
                facts.push(fact.clone());
            }
        }
        facts
    }
}
