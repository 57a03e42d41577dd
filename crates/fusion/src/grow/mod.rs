//! Region growth: starts with one group per op, and joins groups until each is worth one kernel.
//!
//! There is one mechanism. A round offers pairs of neighbouring groups (and chains of three, and siblings that read the
//! same value) in a fixed order of rules, those that save the most bytes first. Ties are broken by the order of the
//! groups, which is that of their ops; passes put ops in an order that does not depend on how the graph was written, so
//! the groups do not depend on it either. Each offer is examined as a whole by [`examine`], must not create a cycle,
//! and must have a benefit. Rounds continue until none joins any groups. A join that was refused only because two sizes
//! may or may not be equal is a near miss.
//!
//! This terminates: a join either turns several groups into one, or (where an index map stays, since other groups read
//! it too) keeps the number of groups and adds ops to one of them. So the pair of the number of groups and the number
//! of ops that groups do not contain decreases lexicographically with each join; a refused set of groups is not offered
//! again; and all of this work is charged to the plan's budget, which only decreases.

mod groups;
mod offers;
mod run_order;

pub(crate) use groups::{GroupId, Groups, defining};

use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Graph, OpId, RegionId, ValueId};
use kiln_symbolic_shape::{DimId, PlanFact};

use crate::analyzer::FusionCandidateAnalyzer;
use crate::benefit::FusionBenefit;
use crate::candidate::{Profile, Refusal, describe_op};
use crate::cost::{self, Cost};
use crate::op_kind::apart;
use crate::options::FusionOptions;
use crate::sizes::{Answer, SizeQueries};
use groups::Group;
use offers::{Offer, Rule};

/// Unions that lowering rejected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocked {
    /// Sets of ops that cannot be one kernel, and why.
    pub(crate) unions: Vec<(BTreeSet<OpId>, Refusal)>,
    /// Ops that must not be fused.
    pub(crate) alone: BTreeSet<OpId>,
}

/// The grown groups of a region, and near misses.
pub(crate) struct Grown<'a> {
    pub(crate) groups: Groups<'a>,
    /// By the ops between which the join failed.
    pub(crate) near: BTreeMap<(OpId, OpId), Refusal>,
}

/// Grows the groups of a region.
pub(crate) fn grow<'a>(
    analyzer: &'a FusionCandidateAnalyzer<'a>,
    region: RegionId,
    blocked: &'a Blocked,
) -> Grown<'a> {
    let mut growth = Growth {
        analyzer,
        graph: analyzer.graph,
        sizes: &analyzer.sizes,
        options: &analyzer.options,
        blocked,
        groups: Groups::new(analyzer.graph, region),
        refused: BTreeSet::new(),
        near: BTreeMap::new(),
    };
    growth.describe_singles();
    if growth.options.fuse {
        while growth.round() {}
    }
    Grown {
        groups: growth.groups,
        near: growth.near,
    }
}

struct Growth<'a> {
    analyzer: &'a FusionCandidateAnalyzer<'a>,
    graph: &'a Graph,
    sizes: &'a SizeQueries<'a>,
    options: &'a FusionOptions,
    blocked: &'a Blocked,
    groups: Groups<'a>,
    refused: BTreeSet<Vec<GroupId>>,
    near: BTreeMap<(OpId, OpId), Refusal>,
}

/// A union of groups that may be joined.
struct Union {
    ops: BTreeSet<OpId>,
    profile: Profile,
    apart: Vec<Cost>,
    benefit: FusionBenefit,
    kept: Option<GroupId>,
}

impl Growth<'_> {
    /// The kind of each op, and its cost as a separate kernel.
    fn describe_singles(&mut self) {
        let ids: Vec<GroupId> = self.groups.ids().collect();
        for id in ids {
            let Some(group) = self.groups.get(id) else {
                continue;
            };
            if !group.is_kernel(self.graph) {
                continue;
            }
            let outputs = self.groups.outputs(&group.own, &[id]);
            let profile = self.analyzer.examine(&group.ops, &outputs).ok();
            let cost = self.analyzer.cost(&group.ops, &outputs);
            if let Some(group) = self.groups.get_mut(id) {
                group.profile = profile;
                group.apart = vec![cost];
            }
        }
    }

    /// Offers all candidates once; returns whether any were joined.
    fn round(&mut self) -> bool {
        let mut joined = false;
        for rule in Rule::ALL {
            loop {
                let budget = self.sizes.budget();
                if budget.is_spent() {
                    return false;
                }
                let offers = offers::of_rule(self.graph, self.sizes, &self.groups, *rule);
                budget.spend(1 + offers.len() as u64);
                let mut progress = false;
                for offer in offers {
                    progress |= self.take(*rule, &offer);
                }
                joined |= progress;
                if !progress {
                    break;
                }
            }
        }
        joined
    }

    /// Joins the offered groups, if that is legal and profitable.
    fn take(&mut self, rule: Rule, offer: &Offer) -> bool {
        let members = &offer.members;
        if members.iter().any(|&id| self.groups.get(id).is_none()) || self.refused.contains(members)
        {
            return false;
        }
        match self.union(rule, members) {
            Ok(union) => {
                let note = self.note(rule, members, &union);
                self.join(members, union, note);
                true
            }
            Err(refusal) => {
                // A plan should not depend on a fact that is false at likely sizes.
                let likely =
                    |fact: PlanFact| self.sizes.likely(fact.left) == self.sizes.likely(fact.right);
                let pair = self.boundary(members);
                if let Some(pair) = pair.filter(|_| refusal.fact().is_some_and(likely)) {
                    self.near.entry(pair).or_insert(refusal);
                }
                self.refused.insert(members.clone());
                false
            }
        }
    }

    /// The ops between which a join of these groups failed: the last op of the first group, and the first op of the
    /// last.
    fn boundary(&self, members: &[GroupId]) -> Option<(OpId, OpId)> {
        let (first, last) = (members.first()?, members.last()?);
        let producer = *self.groups.get(*first)?.ops.last()?;
        let consumer = *self.groups.get(*last)?.ops.first()?;
        Some((producer, consumer))
    }

    fn union(&self, rule: Rule, members: &[GroupId]) -> Result<Union, Refusal> {
        let mut ops = BTreeSet::new();
        let mut own = BTreeSet::new();
        let mut parts = Vec::new();
        let mut apart = Vec::new();
        for group in members.iter().filter_map(|&id| self.groups.get(id)) {
            ops.extend(group.ops.iter().copied());
            own.extend(group.own.iter().copied());
            apart.extend(group.apart.iter().copied());
        }
        let budget = self.sizes.budget();
        budget.spend(ops.len() as u64);
        if budget.is_spent() {
            return Err(Refusal::Budget {
                limit: self.sizes.limits().plan_work,
            });
        }
        self.check_limits(&ops)?;
        let kept = self.kept(rule, members);
        if let Some(kept) = kept.and_then(|id| self.groups.get(id)) {
            for op in &kept.own {
                own.remove(op);
            }
        }
        if kept.is_none() && self.groups.would_cycle(members, budget) {
            return Err(Refusal::Cycle);
        }
        let outputs = self.groups.outputs(&own, members);
        let buffers = cost::inputs(self.graph, &ops).len() + outputs.len();
        limit("buffers", buffers, self.options.max_buffers)?;
        let profile = self.analyzer.examine(&ops, &outputs)?;
        for &id in members {
            if let Some(group) = self.groups.get(id) {
                let outputs = self.groups.outputs(&group.own, &[id]);
                parts.push(self.analyzer.cost(&group.ops, &outputs));
            }
        }
        let benefit = self
            .analyzer
            .benefit(&parts, &ops, &outputs, profile.complexity);
        let free = rule == Rule::IndexMap && !self.is_regrouping(members);
        if !free && !benefit.should_fuse(self.options.threshold) {
            return Err(Refusal::NoBenefit);
        }
        Ok(Union {
            ops,
            profile,
            apart,
            benefit,
            kept,
        })
    }

    /// Whether the first member only regroups axes: as a view it is free, and read in place it would cost arithmetic.
    fn is_regrouping(&self, members: &[GroupId]) -> bool {
        let first = members.first().and_then(|&id| self.groups.get(id));
        let Some(group) = first.filter(|group| is_view(self.graph, self.sizes, &group.ops)) else {
            return false;
        };
        let real = |value: Option<&ValueId>| -> Vec<DimId> {
            let ty = value.and_then(|&value| self.graph.tensor_ty(value));
            let dims = ty.into_iter().flat_map(|ty| ty.dims.iter().copied());
            dims.filter(|&dim| !self.sizes.is_one(dim)).collect()
        };
        group.ops.iter().any(|&op| {
            let data = self.graph.op(op);
            let (from, to) = (real(data.operands.first()), real(data.results.first()));
            let is_same =
                |(&a, &b)| matches!(self.sizes.equal(a, b), Answer::Proved | Answer::Under(_));
            from.len() != to.len() || !from.iter().zip(&to).all(is_same)
        })
    }

    fn check_limits(&self, ops: &BTreeSet<OpId>) -> Result<(), Refusal> {
        limit("ops", ops.len(), self.options.max_ops)?;
        if let Some(op) = ops
            .iter()
            .copied()
            .find(|op| self.blocked.alone.contains(op))
        {
            return Err(Refusal::Apart { op });
        }
        let mut blocked = self.blocked.unions.iter();
        match blocked.find(|(blocked, _)| blocked == ops) {
            Some((_, refusal)) => Err(refusal.clone()),
            None => Ok(()),
        }
    }

    /// The first member, if it is an index map, or a widening, that other groups read too: it remains, and is
    /// recomputed here.
    fn kept(&self, rule: Rule, members: &[GroupId]) -> Option<GroupId> {
        let &first = members.first()?;
        let group = self.groups.get(first)?;
        let needed = !self.groups.outputs(&group.own, members).is_empty();
        (matches!(rule, Rule::IndexMap | Rule::Widening) && needed).then_some(first)
    }

    fn note(&self, rule: Rule, members: &[GroupId], union: &Union) -> String {
        let name = |id: Option<&GroupId>| {
            let group = id.and_then(|&id| self.groups.get(id));
            let op = group.and_then(|group| group.ops.last().copied());
            op.map_or_else(String::new, |op| describe_op(self.graph, op))
        };
        let (first, last) = (name(members.first()), name(members.last()));
        match rule {
            Rule::IndexMap => format!("{first} read in place by {last}"),
            _ => format!(
                "{first} with {last}: {}, {} bytes less",
                rule.as_words(),
                union.benefit.bytes_saved
            ),
        }
    }

    fn join(&mut self, members: &[GroupId], union: Union, note: String) {
        let mut notes = Vec::new();
        let mut own = BTreeSet::new();
        for &id in members {
            if let Some(group) = self.groups.get(id) {
                own.extend(group.own.iter().copied());
                if Some(id) != union.kept {
                    notes.extend(group.notes.iter().cloned());
                }
            }
        }
        notes.push(note);
        let group = Group {
            ops: union.ops,
            own,
            apart: union.apart,
            profile: Some(union.profile),
            notes,
        };
        self.groups
            .join(members, union.kept, group, self.sizes.budget());
    }
}

fn limit(what: &'static str, given: usize, limit: usize) -> Result<(), Refusal> {
    if given > limit {
        return Err(Refusal::Limit { what, given, limit });
    }
    Ok(())
}

/// Whether the ops leave the elements where they are, in the same row-major order.
pub(crate) fn is_view(graph: &Graph, sizes: &SizeQueries<'_>, ops: &BTreeSet<OpId>) -> bool {
    use kiln_ir::Op;
    ops.iter().all(|&op| {
        let data = graph.op(op);
        let dims = |value: Option<&ValueId>| {
            let ty = value.and_then(|&value| graph.tensor_ty(value));
            ty.map(|ty| ty.dims.clone()).unwrap_or_default()
        };
        match &data.op {
            Op::Reshape { .. } => apart(graph, op).is_none(),
            Op::Transpose { permutation } => {
                let from = dims(data.operands.first());
                let moved = permutation
                    .iter()
                    .copied()
                    .filter(|&axis| from.get(axis).is_some_and(|&dim| !sizes.is_one(dim)));
                moved.is_sorted()
            }
            _ => false,
        }
    })
}
