//! Explains why two ops were or were not fused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use kiln_ir::{Graph, OpId, ValueId};
use kiln_symbolic_shape::PlanFact;

use crate::analyzer::FusionCandidateAnalyzer;
use crate::benefit::FusionBenefit;
use crate::candidate::{Refusal, describe_op, with_article};
use crate::error::FusionError;
use crate::grow::defining;
use crate::plan::{FusionNode, FusionNodeId, FusionPlan, NodeKind};

/// The subject of an explanation: an op, or the op that produces a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An op.
    Op(OpId),
    /// The op that produces this value.
    Value(ValueId),
}

impl From<OpId> for Subject {
    fn from(op: OpId) -> Self {
        Subject::Op(op)
    }
}

impl From<ValueId> for Subject {
    fn from(value: ValueId) -> Self {
        Subject::Value(value)
    }
}

/// Why two ops are in one kernel, or why not. Prints as a few lines.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// One op.
    pub a: OpId,
    /// The other.
    pub b: OpId,
    /// The node that contains both, if one does.
    pub together: Option<FusionNodeId>,
    /// The rule that keeps them apart.
    pub refusal: Option<Refusal>,
    /// The fact under which they would be in one kernel.
    pub fact: Option<PlanFact>,
    /// The benefit of having them in one kernel.
    pub benefit: Option<FusionBenefit>,
    /// The explanation in words, a line each.
    pub lines: Vec<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl FusionPlan {
    /// Why two ops of the planned graph are in one kernel, or why not.
    ///
    /// # Errors
    /// When an id is not of the graph or the plan, or a value is not an op's result.
    pub fn explain(
        &self,
        graph: &Graph,
        a: impl Into<Subject>,
        b: impl Into<Subject>,
    ) -> Result<Explanation, FusionError> {
        let (a, b) = (op_of(graph, a.into())?, op_of(graph, b.into())?);
        let node = |op: OpId| {
            let node = self.node_of(op).map(|id| self.node(id));
            node.ok_or_else(|| FusionError::Unknown {
                what: "an op",
                of: "plan",
                found: op.to_string(),
            })
        };
        let (of_a, of_b) = (node(a)?, node(b)?);
        let mut explainer = Explainer {
            plan: self,
            graph,
            explanation: Explanation {
                a,
                b,
                together: None,
                refusal: None,
                fact: None,
                benefit: None,
                lines: Vec::new(),
            },
        };
        explainer.explain(of_a, of_b);
        Ok(explainer.explanation)
    }
}

fn op_of(graph: &Graph, subject: Subject) -> Result<OpId, FusionError> {
    let unknown = |what: &'static str, found: String| FusionError::Unknown {
        what,
        of: "graph",
        found,
    };
    match subject {
        Subject::Op(op) if graph.contains_op(op) => Ok(op),
        Subject::Op(op) => Err(unknown("an op", op.to_string())),
        Subject::Value(value) if graph.contains_value(value) => {
            defining(graph, value).ok_or_else(|| unknown("the result of an op", value.to_string()))
        }
        Subject::Value(value) => Err(unknown("a value", value.to_string())),
    }
}

struct Explainer<'a> {
    plan: &'a FusionPlan,
    graph: &'a Graph,
    explanation: Explanation,
}

impl Explainer<'_> {
    fn say(&mut self, line: impl Into<String>) {
        self.explanation.lines.push(line.into());
    }

    fn explain(&mut self, of_a: &FusionNode, of_b: &FusionNode) {
        let (a, b) = (self.explanation.a, self.explanation.b);
        let (name_a, name_b) = (describe_op(self.graph, a), describe_op(self.graph, b));
        let both = [of_a, of_b].into_iter().find(|node| {
            let ops = node.all_ops();
            of_a.id == of_b.id || (ops.contains(&a) && ops.contains(&b))
        });
        if let Some(node) = both {
            self.together(&name_a, &name_b, node);
            return;
        }
        self.say(format!(
            "{name_a} is in {} @{} ({}), {name_b} in {} @{} ({})",
            of_a.id, of_a.name, of_a.kind, of_b.id, of_b.name, of_b.kind
        ));
        let (first, last) = if a <= b { (of_a, of_b) } else { (of_b, of_a) };
        match self.path(first.id, last.id) {
            Some(path) => {
                for pair in path.windows(2) {
                    if let [from, to] = pair {
                        self.boundary(self.plan.node(*from), self.plan.node(*to));
                    }
                }
            }
            None => self.siblings(first, last),
        }
        let near: Vec<String> = self
            .plan
            .near_misses()
            .iter()
            .filter(|near| {
                let of = |op| self.plan.node_of(op);
                let pair = [of(near.producer), of(near.consumer)];
                pair.contains(&Some(of_a.id)) || pair.contains(&Some(of_b.id))
            })
            .map(|near| format!("near miss: {}", near.reason))
            .collect();
        self.explanation.lines.extend(near);
    }

    fn together(&mut self, a: &str, b: &str, node: &FusionNode) {
        let class = node.class.map(|class| format!(", {}", with_article(class)));
        self.say(format!(
            "{a} and {b} are in one node: {} @{}{}",
            node.id,
            node.name,
            class.unwrap_or_default()
        ));
        for note in &node.notes {
            self.say(format!("  {note}"));
        }
        let dims = self.graph.dims();
        for fact in &node.facts {
            let (left, right) = (dims.display(fact.left), dims.display(fact.right));
            self.say(format!("  rests on the fact {left} == {right}"));
        }
        if node.benefit.kernels_removed > 0 {
            self.say(format!("  {}", node.benefit));
        }
        self.explanation.together = Some(node.id);
        self.explanation.benefit = Some(node.benefit);
    }

    /// The nodes on a shortest path from one to the other.
    fn path(&self, from: FusionNodeId, to: FusionNodeId) -> Option<Vec<FusionNodeId>> {
        let mut came_from: BTreeMap<FusionNodeId, FusionNodeId> = BTreeMap::new();
        let mut pending = VecDeque::from([to]);
        while let Some(id) = pending.pop_front() {
            if id == from {
                let next = |id: &FusionNodeId| came_from.get(id).copied();
                return Some(std::iter::successors(Some(from), next).collect());
            }
            for producer in self.producers(id) {
                if producer != to && !came_from.contains_key(&producer) {
                    came_from.insert(producer, id);
                    pending.push_back(producer);
                }
            }
        }
        None
    }

    fn producers(&self, id: FusionNodeId) -> BTreeSet<FusionNodeId> {
        let inputs = self.plan.node(id).inputs.iter();
        inputs
            .filter_map(|&value| self.plan.node_of(defining(self.graph, value)?))
            .collect()
    }

    /// Why two nodes, one of which reads the other's result, are not fused.
    fn boundary(&mut self, first: &FusionNode, last: &FusionNode) {
        let between: Vec<String> = first
            .outputs
            .iter()
            .filter(|value| last.inputs.contains(value))
            .map(|&value| self.graph.ty(value).display(self.graph.dims()).to_string())
            .collect();
        self.say(format!(
            "{} @{} gives {} to {} @{}",
            first.id,
            first.name,
            between.join(", "),
            last.id,
            last.name
        ));
        self.judge(first, last);
    }

    fn siblings(&mut self, first: &FusionNode, last: &FusionNode) {
        let shared = first.inputs.iter().any(|value| last.inputs.contains(value));
        if shared {
            self.say("neither reads the other; they read a value in common".to_owned());
            self.judge(first, last);
        } else {
            self.refuse(Refusal::Unrelated);
        }
    }

    /// The rule that prevents the ops of two nodes from being one kernel.
    fn judge(&mut self, first: &FusionNode, last: &FusionNode) {
        for node in [first, last] {
            if !matches!(node.kind, NodeKind::Kernel | NodeKind::View) {
                if let Some(&op) = node.ops.first() {
                    self.refuse(Refusal::Apart { op });
                }
                for note in &node.notes {
                    self.say(format!("  {note}"));
                }
                return;
            }
        }
        let analyzer = FusionCandidateAnalyzer::new(self.graph, self.plan.options().clone());
        let verdict = match first.can_fuse_with(last, &analyzer) {
            Err(Refusal::Apart { op }) => Err(Refusal::Apart { op }),
            verdict => self.plan_refuses(first, last).map_or(verdict, Err),
        };
        match verdict {
            Err(refusal) => self.refuse(refusal),
            Ok(benefit) => {
                self.explanation.benefit = Some(benefit);
                let view = [first, last].iter().any(|node| node.kind == NodeKind::View);
                if view {
                    self.say("  one of them is a view, which already costs nothing".to_owned());
                } else {
                    self.say(format!(
                        "  one kernel would be legal but save too little: {benefit}"
                    ));
                }
                self.explanation.refusal.get_or_insert(Refusal::NoBenefit);
            }
        }
    }

    /// The reason, recorded when the plan was made, that kept them apart regardless of their ops.
    fn plan_refuses(&self, first: &FusionNode, last: &FusionNode) -> Option<Refusal> {
        let ops: BTreeSet<OpId> = first.all_ops().into_iter().chain(last.all_ops()).collect();
        let ops: Vec<OpId> = ops.into_iter().collect();
        let rejected = self.plan.rejected().iter().find(|(other, _)| *other == ops);
        if let Some((_, reason)) = rejected {
            return Some(Refusal::Lowering {
                reason: reason.clone(),
            });
        }
        if self.returns(first, last) {
            return Some(Refusal::Cycle);
        }
        self.plan.is_budget_spent().then(|| Refusal::Budget {
            limit: self.plan.options().limits.plan_work,
        })
    }

    /// Whether another node is between them: a path from the first to the last through a third.
    fn returns(&self, first: &FusionNode, last: &FusionNode) -> bool {
        let mut pending: Vec<FusionNodeId> = self
            .producers(last.id)
            .into_iter()
            .filter(|&id| id != first.id)
            .collect();
        let mut seen: BTreeSet<FusionNodeId> = pending.iter().copied().collect();
        while let Some(id) = pending.pop() {
            for producer in self.producers(id) {
                if producer == first.id {
                    return true;
                }
                if seen.insert(producer) {
                    pending.push(producer);
                }
            }
        }
        false
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.say(format!("  {}", refusal.describe(self.graph)));
        if self.explanation.fact.is_none() {
            self.explanation.fact = refusal.fact();
        }
        self.explanation.refusal.get_or_insert(refusal);
    }
}
