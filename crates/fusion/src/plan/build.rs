//! Builds a plan from a graph: regions are grown, lowered, and ordered.
//!
//! If lowering rejects a group of ops, that group is excluded and the region is grown again. After a few attempts, the
//! ops that still fail are left unfused. An op that cannot be lowered even alone is left to the interpreter, with the
//! reason in the node's notes. This terminates: once the limit is reached, each attempt leaves at least one more op
//! unfused.

mod loops;

use std::collections::BTreeSet;

use cranelift_entity::packed_option::PackedOption;
use kiln_ir::{Graph, OpId, RegionId, ValueId};
use kiln_kernel::Class;
use kiln_shape_inference::{ShapeInferenceEngine, TypeChecker};
use kiln_symbolic_shape::PlanFact;

use super::node::{FusionNode, FusionNodeId, NodeKind};
use super::{FusionPlan, NearMiss};
use crate::analyzer::FusionCandidateAnalyzer;
use crate::benefit::FusionBenefit;
use crate::candidate::{Refusal, describe_op};
use crate::cost;
use crate::error::FusionError;
use crate::generator::FusionKernelGenerator;
use crate::grow::{Blocked, GroupId, Grown, is_view};
use crate::lower::{LoweredKernel, Region};
use crate::name::name_of_ops;
use crate::op_kind::{apart, unit_cost};
use crate::options::FusionOptions;
use crate::sizes::SizeQueries;

/// How often a region is grown again before the ops that lowering rejects are left unfused.
const ATTEMPT_LIMIT: usize = 8;

/// Decides which ops of a verified graph become one kernel, and how every other op is executed.
///
/// The graph should have gone through the passes. Its control-flow regions are planned too, each separately. Sizes stay
/// symbols: likely sizes affect only the order in which joins are tried and their estimated savings.
///
/// # Errors
/// When the graph's ops form a cycle; in debug builds also where a node's shapes differ from the graph's.
pub fn plan(graph: &Graph, options: &FusionOptions) -> Result<FusionPlan, FusionError> {
    let span = tracing::debug_span!("fusion.plan", graph = graph.name());
    let _entered = span.enter();
    // Before any proof, on a copy of the graph's table, so that its cost is not part of the plan's.
    let checker =
        cfg!(debug_assertions).then(|| TypeChecker::new(graph, &ShapeInferenceEngine::new()));
    let analyzer = FusionCandidateAnalyzer::new(graph, options.clone());
    let mut builder = Builder {
        graph,
        analyzer: &analyzer,
        generator: FusionKernelGenerator::new(graph),
        plan: FusionPlan {
            graph_name: graph.name().to_owned(),
            options: options.clone(),
            ..FusionPlan::default()
        },
    };
    let mut pending = vec![graph.body()];
    while let Some(region) = pending.pop() {
        builder.plan_region(region)?;
        let ops = graph.region(region).ops.iter();
        let walked = ops.filter(|&&op| builder.plan.kind_of(op) == Some(&NodeKind::Control));
        pending.extend(walked.flat_map(|&op| graph.op(op).regions.iter().copied()));
    }
    let mut plan = builder.plan;
    plan.work = analyzer.sizes.budget().spent();
    let table = graph.dims();
    let spent = table.is_prover_spent();
    plan.spent_proofs = spent.then_some(table.limits().prover_total);
    if let Some(mut checker) = checker {
        let mut nodes = plan.nodes();
        nodes.try_for_each(|node| node.validate_fusion(graph, &mut checker))?;
    }
    Ok(plan)
}

struct Builder<'a> {
    graph: &'a Graph,
    analyzer: &'a FusionCandidateAnalyzer<'a>,
    generator: FusionKernelGenerator<'a>,
    plan: FusionPlan,
}

/// A group on its way to becoming a node.
#[derive(Clone)]
struct Draft {
    kind: NodeKind,
    ops: BTreeSet<OpId>,
    own: BTreeSet<OpId>,
    outputs: Vec<ValueId>,
    facts: Vec<PlanFact>,
    class: Option<Class>,
    benefit: FusionBenefit,
    notes: Vec<String>,
    name: String,
}

impl<'a> Builder<'a> {
    fn sizes(&self) -> &'a SizeQueries<'a> {
        &self.analyzer.sizes
    }

    fn plan_region(&mut self, region: RegionId) -> Result<(), FusionError> {
        let mut blocked = Blocked::default();
        for attempt in 0.. {
            let analyzer = self.analyzer;
            let grown = analyzer.find_fusible_operations(region, &blocked);
            let drafts = self.drafts(region, &grown)?;
            let failed = self.failures(&drafts);
            if failed.is_empty() {
                self.add_near_misses(&grown);
                return self.finish(region, drafts);
            }
            let mut more = blocked.clone();
            for (ops, refusal) in failed {
                tracing::debug!(ops = ops.len(), "lowering refused a group");
                let reason = refusal.describe(self.graph);
                self.plan
                    .rejected
                    .push((ops.iter().copied().collect(), reason));
                if attempt < ATTEMPT_LIMIT && !self.sizes().budget().is_spent() {
                    more.unions.push((ops, refusal));
                } else {
                    more.alone.extend(ops);
                }
            }
            blocked = more;
        }
        Ok(())
    }

    fn drafts(&mut self, region: RegionId, grown: &Grown<'_>) -> Result<Vec<Draft>, FusionError> {
        let order = grown.groups.in_order().ok_or_else(|| FusionError::Cycle {
            region: region.to_string(),
        })?;
        let drafts = order.into_iter().filter_map(|id| self.draft(grown, id));
        let mut drafts: Vec<Draft> = drafts.collect();
        self.make_loops_kernels(region, &mut drafts);
        Ok(drafts)
    }

    fn draft(&self, grown: &Grown<'_>, id: GroupId) -> Option<Draft> {
        let group = grown.groups.get(id)?;
        let outputs = grown.groups.outputs(&group.own, &[id]);
        let first = group.ops.first().copied()?;
        let kind = match apart(self.graph, first) {
            Some(kind) => kind,
            None if is_view(self.graph, self.sizes(), &group.ops) => NodeKind::View,
            None if self.is_dims(&group.ops) => NodeKind::Dims,
            None => NodeKind::Kernel,
        };
        let class = group.profile.as_ref().map(|profile| profile.class);
        // A view of the same elements is a view for all sizes.
        let profile = group.profile.iter().filter(|_| kind != NodeKind::View);
        let facts = profile.flat_map(|profile| &profile.facts);
        let facts = facts.filter_map(|&number| self.sizes().fact(number).cloned());
        let benefit = if kind == NodeKind::Kernel {
            let complexity = group.profile.as_ref().map(|profile| profile.complexity);
            let complexity = complexity.unwrap_or_else(|| unit_cost(&self.graph.op(first).op));
            self.analyzer
                .benefit(&group.apart, &group.ops, &outputs, complexity)
        } else {
            FusionBenefit::default()
        };
        Some(Draft {
            name: name_of_ops(self.graph, &group.ops, class),
            facts: facts.collect(),
            class: class.filter(|_| kind == NodeKind::Kernel),
            kind,
            ops: group.ops.clone(),
            own: group.own.clone(),
            outputs,
            benefit,
            notes: group.notes.clone(),
        })
    }

    fn is_dims(&self, ops: &BTreeSet<OpId>) -> bool {
        let mut ops = ops.iter();
        ops.all(|&op| matches!(self.graph.op(op).op, kiln_ir::Op::Dims { .. }))
    }

    /// The groups of several ops that lowering rejects.
    fn failures(&mut self, drafts: &[Draft]) -> Vec<(BTreeSet<OpId>, Refusal)> {
        let mut failed = Vec::new();
        for draft in drafts.iter().filter(|draft| draft.kind == NodeKind::Kernel) {
            let refused = self.lower(draft).err();
            if let Some(refusal) = refused.filter(|_| draft.ops.len() > 1) {
                failed.push((draft.ops.clone(), refusal));
            }
        }
        failed
    }

    /// The kernel of a draft.
    fn lower(&mut self, draft: &Draft) -> Result<(LoweredKernel, Class), Refusal> {
        let ops: Vec<OpId> = draft.ops.iter().copied().collect();
        let region = Region {
            ops: &ops,
            outputs: &draft.outputs,
            facts: &draft.facts,
            name: &draft.name,
        };
        self.generator.generate_generic_kernel(&region, draft.class)
    }

    fn add_near_misses(&mut self, grown: &Grown<'_>) {
        for (&(producer, consumer), refusal) in &grown.near {
            let Some(fact) = refusal.fact() else {
                continue;
            };
            self.plan.near_misses.push(NearMiss {
                producer,
                consumer,
                fact,
                reason: refusal.describe(self.graph),
            });
        }
    }

    fn finish(&mut self, region: RegionId, drafts: Vec<Draft>) -> Result<(), FusionError> {
        let mut order = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let lowered = match draft.kind {
                NodeKind::Kernel => Some(self.lower(&draft)),
                _ => None,
            };
            order.push(self.add(region, draft, lowered));
        }
        self.plan.regions.insert(region, order);
        Ok(())
    }

    fn add(
        &mut self,
        region: RegionId,
        draft: Draft,
        lowered: Option<Result<(LoweredKernel, Class), Refusal>>,
    ) -> FusionNodeId {
        let id = self.plan.nodes.next_key();
        let mut node = FusionNode {
            id,
            kind: draft.kind,
            name: draft.name,
            region,
            recomputed: draft.ops.difference(&draft.own).copied().collect(),
            inputs: cost::inputs(self.graph, &draft.ops),
            ops: draft.own.into_iter().collect(),
            outputs: draft.outputs,
            facts: draft.facts,
            class: draft.class,
            kernel: None,
            benefit: draft.benefit,
            notes: draft.notes,
        };
        match lowered {
            Some(Ok((kernel, class))) => {
                node.kernel = Some(kernel);
                node.class = Some(class);
            }
            Some(Err(refusal)) => {
                node.kind = NodeKind::Interpret;
                node.class = None;
                node.notes.push(refusal.describe(self.graph));
            }
            None if node.kind == NodeKind::Interpret => {
                let ops = node.ops.iter().map(|&op| describe_op(self.graph, op));
                let ops: Vec<String> = ops.collect();
                node.notes
                    .push(format!("{} is not part of a kernel", ops.join(", ")));
            }
            None => {}
        }
        for &op in &node.ops {
            self.plan.node_of[op] = PackedOption::from(id);
            if node.kind == NodeKind::Kernel {
                let bodies = self.graph.op(op).regions.iter();
                for &op in bodies.flat_map(|&body| &self.graph.region(body).ops) {
                    self.plan.node_of[op] = PackedOption::from(id);
                }
            }
        }
        self.plan.nodes.push(node)
    }
}
