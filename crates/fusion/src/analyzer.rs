//! Analyses the fusion candidates of a graph and their benefit, for planning and explanations.

use std::collections::BTreeSet;

use kiln_ir::{Graph, OpId, RegionId, ValueId};

use crate::benefit::FusionBenefit;
use crate::candidate::{Profile, Refusal, examine};
use crate::cost::{self, Cost, Effort};
use crate::grow::{Blocked, Grown, grow, is_view};
use crate::options::FusionOptions;
use crate::sizes::SizeQueries;
use crate::subgraph;

/// Finds which ops of a graph could be fused into one kernel, and the benefit.
#[derive(Debug)]
pub struct FusionCandidateAnalyzer<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) options: FusionOptions,
    pub(crate) sizes: SizeQueries<'a>,
}

impl<'a> FusionCandidateAnalyzer<'a> {
    /// An analyzer of a verified graph.
    pub fn new(graph: &'a Graph, options: FusionOptions) -> Self {
        Self {
            graph,
            sizes: SizeQueries::of_options(graph, &options),
            options,
        }
    }

    /// The ops of a region in groups, each of which becomes one node, and the near misses.
    pub(crate) fn find_fusible_operations<'b>(
        &'b self,
        region: RegionId,
        blocked: &'b Blocked,
    ) -> Grown<'b> {
        grow(self, region, blocked)
    }

    /// Whether these ops, with these results read by others, can be one kernel.
    pub(crate) fn examine(
        &self,
        ops: &BTreeSet<OpId>,
        outputs: &[ValueId],
    ) -> Result<Profile, Refusal> {
        examine(self.graph, &self.sizes, ops, outputs)
    }

    /// The benefit of doing these ops in one kernel, compared with one kernel for each of them.
    ///
    /// # Errors
    /// The rule that forbids one kernel.
    pub fn analyze_benefit(&self, ops: &[OpId]) -> Result<FusionBenefit, Refusal> {
        let ops: BTreeSet<OpId> = ops.iter().copied().collect();
        let outputs = subgraph::outputs(self.graph, &ops);
        let profile = self.examine(&ops, &outputs)?;
        let alone = ops.iter().map(|&op| {
            let results = self.graph.op(op).results.to_vec();
            self.cost(&BTreeSet::from([op]), &results)
        });
        let alone: Vec<Cost> = alone.collect();
        Ok(self.benefit(&alone, &ops, &outputs, profile.complexity))
    }

    /// The benefit of doing these ops in one kernel, given the cost of the parts.
    pub(crate) fn benefit(
        &self,
        parts: &[Cost],
        ops: &BTreeSet<OpId>,
        outputs: &[ValueId],
        complexity: u64,
    ) -> FusionBenefit {
        cost::benefit(parts, self.cost(ops, outputs), complexity)
    }

    /// The cost of these ops as one node: zero if they are a view.
    pub(crate) fn cost(&self, ops: &BTreeSet<OpId>, outputs: &[ValueId]) -> Cost {
        if is_view(self.graph, &self.sizes, ops) {
            return Cost::default();
        }
        cost::of_kernel(self.graph, &self.sizes, ops, outputs)
    }

    /// The bound of these ops as one kernel, and its duration: input for fitting the parameters of the cost model.
    /// Legality is not checked.
    pub fn effort(&self, ops: &[OpId]) -> Effort {
        let ops: BTreeSet<OpId> = ops.iter().copied().collect();
        let outputs = subgraph::outputs(self.graph, &ops);
        cost::effort(self.graph, &self.sizes, &ops, &outputs)
    }
}
