//! The groups offered for joining, by rule and in order.

use std::collections::BTreeSet;

use kiln_ir::{Graph, ValueId};

use super::groups::{Group, GroupId, Groups, defining};
use crate::cost::inputs;
use crate::op_kind::OpKind;
use crate::sizes::SizeQueries;

/// The rule by which groups are offered, in the order in which the rules are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// An index map is fused into its reader.
    IndexMap,
    /// Narrow numbers that a contraction or window reads as wider floats are converted where they are read: memory has the
    /// narrow ones.
    Widening,
    /// Ops after a contraction or window are applied to its result while it is in registers, unless they are left to their
    /// reader.
    Epilogue,
    /// Maps and rows join their readers.
    Chain,
    /// Cheap maps go into the operand of a contraction or window.
    Prologue,
    /// Ops that were left to their reader, but were not fused with it, become an epilogue after all.
    LeftEpilogue,
    /// Two contractions with row ops, such as a softmax, between them.
    Between,
    /// Products of one operand, if one of them is combined with the other's result.
    Products,
    /// Maps and rows that read the same value.
    Siblings,
}

impl Rule {
    /// Every rule, in order.
    pub(crate) const ALL: &'static [Rule] = &[
        Rule::IndexMap,
        Rule::Widening,
        Rule::Epilogue,
        Rule::Chain,
        Rule::Prologue,
        Rule::LeftEpilogue,
        Rule::Between,
        Rule::Products,
        Rule::Siblings,
    ];

    /// Its display name.
    pub(crate) fn as_words(self) -> &'static str {
        match self {
            Rule::IndexMap => "read in place",
            Rule::Widening => "converted where they are read",
            Rule::Epilogue | Rule::LeftEpilogue => "epilogue",
            Rule::Chain => "chain",
            Rule::Prologue => "prologue",
            Rule::Between => "contraction, rows, contraction",
            Rule::Products => "products of one operand",
            Rule::Siblings => "siblings",
        }
    }
}

/// Groups to join, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) members: Vec<GroupId>,
    /// The bytes between them.
    bytes: u64,
}

/// A rule's offers, those with the most bytes first, then in the order of the groups.
pub(crate) fn of_rule(
    graph: &Graph,
    sizes: &SizeQueries<'_>,
    groups: &Groups<'_>,
    rule: Rule,
) -> Vec<Offer> {
    let context = Context {
        graph,
        sizes,
        groups,
    };
    let mut offers = match rule {
        Rule::Siblings => context.siblings(),
        Rule::Between => context.between(),
        _ => context.pairs(rule),
    };
    offers.sort_by(|a, b| {
        b.bytes
            .cmp(&a.bytes)
            .then_with(|| a.members.cmp(&b.members))
    });
    offers
}

struct Context<'a> {
    graph: &'a Graph,
    sizes: &'a SizeQueries<'a>,
    groups: &'a Groups<'a>,
}

impl Context<'_> {
    fn kernel(&self, id: GroupId) -> Option<&Group> {
        self.groups
            .get(id)
            .filter(|group| group.is_kernel(self.graph))
    }

    fn bytes(&self, value: ValueId) -> u64 {
        let ty = self.graph.tensor_ty(value);
        ty.map_or(0, |ty| self.sizes.likely_bytes(ty))
    }

    fn pairs(&self, rule: Rule) -> Vec<Offer> {
        let mut offers = Vec::new();
        for consumer in self.groups.ids() {
            let Some(reader) = self.kernel(consumer) else {
                continue;
            };
            for (producer, value) in self.groups.producers(consumer) {
                let Some(source) = self.kernel(producer) else {
                    continue;
                };
                let found = match self.rule_of(source, reader) {
                    Some(Rule::Epilogue) if self.is_left(producer, consumer) => {
                        Some(Rule::LeftEpilogue)
                    }
                    found => found,
                };
                if found == Some(rule) {
                    offers.push(Offer {
                        members: vec![producer, consumer],
                        bytes: self.bytes(value),
                    });
                }
            }
        }
        offers
    }

    /// Whether an epilogue is better left to the group that reads it, as the slope of an activation is to the backward
    /// pass: its operands are stored anyway, for other readers, and reading them again moves fewer bytes than storing
    /// and reading its results.
    fn is_left(&self, source: GroupId, epilogue: GroupId) -> bool {
        let reader = self.sole_reader(epilogue);
        let (Some(before), Some(group), Some(reader)) = (
            self.groups.get(source),
            self.groups.get(epilogue),
            reader.and_then(|reader| self.groups.get(reader)),
        ) else {
            return false;
        };
        let is_other = |reader: GroupId| {
            reader != epilogue && reader != source && !self.ends_in_one(before, epilogue, reader)
        };
        let is_stored = |value: &ValueId| {
            let home = defining(self.graph, *value).and_then(|op| self.groups.home(op));
            home != Some(source)
                || self.groups.is_escaping(*value)
                || self.groups.readers(*value).into_iter().any(is_other)
        };
        let total = |values: &mut dyn Iterator<Item = ValueId>| -> u64 {
            values.map(|value| self.bytes(value)).sum()
        };
        let read = inputs(self.graph, &group.ops);
        let read_there = inputs(self.graph, &reader.ops);
        let mut read_anew = read.iter().copied().filter(|it| !read_there.contains(it));
        let results = self.groups.outputs(&group.own, &[epilogue]);
        read.iter().all(is_stored)
            && total(&mut read_anew) < total(&mut results.into_iter()).saturating_mul(2)
    }

    /// Whether a group could be an epilogue of `source` as well, after `epilogue`: the three may end up in one kernel,
    /// in which case nothing is stored for it.
    fn ends_in_one(&self, source: &Group, epilogue: GroupId, after: GroupId) -> bool {
        let rule = self
            .kernel(after)
            .and_then(|group| self.rule_of(source, group));
        let mut producers = self.groups.producers(after).into_iter();
        rule == Some(Rule::Epilogue)
            && (producers.any(|(producer, _)| producer == epilogue)
                || self
                    .groups
                    .would_cycle(&[epilogue, after], self.sizes.budget()))
    }

    /// The only group that reads the results of a group of pointwise ops, if it reads them element by element.
    fn sole_reader(&self, id: GroupId) -> Option<GroupId> {
        let is_pointwise = |op| OpKind::of(&self.graph.op(op).op) == OpKind::Pointwise;
        let group = self.groups.get(id)?;
        let mut readers = BTreeSet::new();
        let results = self.groups.outputs(&group.own, &[id]);
        for &value in &results {
            if self.groups.is_escaping(value) {
                return None;
            }
            readers.extend(self.groups.readers(value));
        }
        let reader = readers.pop_first().filter(|_| readers.is_empty())?;
        let mut ops = group.ops.iter().copied();
        let mut reading = self.groups.get(reader)?.ops.iter().copied().filter(|&op| {
            let operands = &self.graph.op(op).operands;
            operands.iter().any(|operand| results.contains(operand))
        });
        (ops.all(is_pointwise) && reading.all(is_pointwise)).then_some(reader)
    }

    /// The rule by which a group would be joined with one that reads it.
    fn rule_of(&self, source: &Group, reader: &Group) -> Option<Rule> {
        if source.is_index_map(self.graph) {
            // A map of a map is offered last: a reader of both may be able to absorb one and not the other.
            let rule = match reader.is_index_map(self.graph) {
                true => Rule::Chain,
                false => Rule::IndexMap,
            };
            return Some(rule);
        }
        if source.is_widening(self.graph) && reader.is_heavy(self.graph) {
            return Some(Rule::Widening);
        }
        Some(
            match (source.is_heavy(self.graph), reader.is_heavy(self.graph)) {
                (true, true) => Rule::Products,
                (true, false) => Rule::Epilogue,
                (false, true) => Rule::Prologue,
                (false, false) => Rule::Chain,
            },
        )
    }

    /// Chains of three with a contraction at both ends, and of two groups with only a view between them.
    fn between(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        for last in self.groups.ids() {
            if self.kernel(last).is_none() {
                continue;
            }
            for (middle, value) in self.groups.producers(last) {
                let Some(rows) = self.kernel(middle) else {
                    continue;
                };
                if rows.is_heavy(self.graph) {
                    continue;
                }
                for (first, other) in self.groups.producers(middle) {
                    if first != last && self.kernel(first).is_some() {
                        offers.push(Offer {
                            members: vec![first, middle, last],
                            bytes: self.bytes(value).saturating_add(self.bytes(other)),
                        });
                    }
                }
            }
        }
        offers
    }

    /// Groups without their own schedule that read the same value.
    fn siblings(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        let mut seen = BTreeSet::new();
        for id in self.groups.ids() {
            let Some(group) = self.kernel(id) else {
                continue;
            };
            for value in inputs(self.graph, &group.ops) {
                let constant = defining(self.graph, value)
                    .is_some_and(|op| matches!(self.graph.op(op).op, kiln_ir::Op::Constant(_)));
                if constant || !seen.insert(value) {
                    continue;
                }
                let readers: Vec<GroupId> = self
                    .groups
                    .readers(value)
                    .into_iter()
                    .filter(|&reader| {
                        self.kernel(reader)
                            .is_some_and(|group| !group.is_heavy(self.graph))
                    })
                    .collect();
                for pair in readers.windows(2) {
                    offers.push(Offer {
                        members: pair.to_vec(),
                        bytes: self.bytes(value),
                    });
                }
            }
        }
        offers
    }
}
