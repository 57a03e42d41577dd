//! Looking for what could be fused, without making kernels.

use std::collections::BTreeSet;

use kiln_ir::{Graph, Op, OpId};
use kiln_symbolic_shape::PlanFact;

use crate::benefit::FusionBenefit;
use crate::candidate::{Refusal, examine};
use crate::cost::{self, Effort};
use crate::grow::{Blocked, grow};
use crate::op_kind::OpKind;
use crate::options::FusionOptions;
use crate::sizes::Sizes;
use crate::subgraph;

/// Answers about what in a graph could be one kernel, and what that would be worth.
#[derive(Debug)]
pub struct FusionCandidateAnalyzer<'a> {
    graph: &'a Graph,
    options: FusionOptions,
    sizes: Sizes<'a>,
}

impl<'a> FusionCandidateAnalyzer<'a> {
    /// An analyzer of a verified graph.
    pub fn new(graph: &'a Graph, options: FusionOptions) -> Self {
        Self {
            graph,
            sizes: Sizes::of_options(graph, &options),
            options,
        }
    }

    /// The sets of two ops and more that would become one kernel each, in program order of their first ops,
    /// those of regions included.
    pub fn find_fusible_operations(&self) -> Vec<Vec<OpId>> {
        let mut found = Vec::new();
        let mut pending = vec![self.graph.body()];
        let blocked = Blocked::default();
        while let Some(region) = pending.pop() {
            let grown = grow(self.graph, region, &self.sizes, &self.options, &blocked);
            let groups = grown.groups.ids().filter_map(|id| grown.groups.get(id));
            for group in groups.filter(|group| group.ops.len() > 1) {
                found.push(group.ops.iter().copied().collect());
            }
            let ops = self.graph.region(region).ops.iter();
            pending.extend(ops.flat_map(|&op| self.graph.op(op).regions.iter().copied()));
        }
        found.sort_unstable();
        found
    }

    /// What doing these ops in one kernel would be worth.
    ///
    /// # Errors
    /// The rule that is against one kernel.
    pub fn analyze_benefit(&self, ops: &[OpId]) -> Result<FusionBenefit, Refusal> {
        let ops: BTreeSet<OpId> = ops.iter().copied().collect();
        let outputs = subgraph::outputs(self.graph, &ops);
        let profile = examine(self.graph, &self.sizes, &ops, &outputs)?;
        let apart: Vec<cost::Cost> = ops
            .iter()
            .map(|&op| {
                let results = self.graph.op(op).results.to_vec();
                cost::of_kernel(self.graph, &self.sizes, &BTreeSet::from([op]), &results)
            })
            .collect();
        let together = cost::of_kernel(self.graph, &self.sizes, &ops, &outputs);
        Ok(cost::benefit(&apart, together, profile.complexity))
    }

    /// What would limit these ops as one kernel, and for how long: what the cost model's figures are fitted with.
    /// Nothing is asked of their legality.
    pub fn effort(&self, ops: &[OpId]) -> Effort {
        let ops: BTreeSet<OpId> = ops.iter().copied().collect();
        let outputs = subgraph::outputs(self.graph, &ops);
        cost::effort(self.graph, &self.sizes, &ops, &outputs)
    }

    /// Whether the op computes each element of its result from the element of an operand at the same
    /// place, and the shapes are equal by proof: element-wise, and broadcasting at most its other operands.
    pub fn is_shape_preserving(&self, op: OpId) -> bool {
        let data = self.graph.op(op);
        if OpKind::of(&data.op) != OpKind::Pointwise && !matches!(data.op, Op::Cumulate { .. }) {
            return false;
        }
        let result = data
            .results
            .first()
            .and_then(|&value| self.graph.tensor_ty(value));
        let Some(result) = result else {
            return false;
        };
        let operands = data
            .operands
            .iter()
            .filter_map(|&value| self.graph.tensor_ty(value));
        operands.into_iter().any(|ty| {
            let dims = self.graph.dims();
            dims.shapes_equal(&ty.dims, &result.dims).is_proved()
        })
    }

    /// The plan facts that would have to be checked at run time for these ops to be one kernel: none when
    /// everything is proved.
    ///
    /// # Errors
    /// The rule that is against one kernel, whatever is checked.
    pub fn required_facts(&self, ops: &[OpId]) -> Result<Vec<PlanFact>, Refusal> {
        let ops: BTreeSet<OpId> = ops.iter().copied().collect();
        let outputs = subgraph::outputs(self.graph, &ops);
        match examine(self.graph, &self.sizes, &ops, &outputs) {
            Ok(profile) => {
                let facts = profile.facts.iter();
                Ok(facts
                    .filter_map(|&number| self.sizes.fact(number).cloned())
                    .collect())
            }
            Err(refusal) => match refusal.fact() {
                Some(fact) => Ok(vec![fact]),
                None => Err(refusal),
            },
        }
    }

    /// Whether these ops can be one kernel only where sizes have been compared at run time.
    pub fn requires_runtime_shape_check(&self, ops: &[OpId]) -> bool {
        self.required_facts(ops)
            .is_ok_and(|facts| !facts.is_empty())
    }
}
