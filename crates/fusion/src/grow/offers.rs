//! The groups offered for joining, by which rule, in which order.

use kiln_ir::{Graph, ValueId};

use super::groups::{Group, GroupId, Groups, defining};
use crate::sizes::SizeQueries;

/// The rule by which groups are offered, in the order in which the rules are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// An index map is fused into its reader.
    IndexMap,
    /// Ops after a contraction or window are applied to its result while it is in registers.
    Epilogue,
    /// Maps and rows join their readers.
    Chain,
    /// Cheap maps go into the operand of a contraction or window.
    Prologue,
    /// Two contractions with rows between them.
    Between,
    /// Products of one operand, where one of them is joined with the other's result.
    Products,
    /// Maps and rows that read the same value.
    Siblings,
}

impl Rule {
    /// Every rule, in order.
    pub(crate) const ALL: &'static [Rule] = &[
        Rule::IndexMap,
        Rule::Epilogue,
        Rule::Chain,
        Rule::Prologue,
        Rule::Between,
        Rule::Products,
        Rule::Siblings,
    ];

    /// Its display name.
    pub(crate) fn as_words(self) -> &'static str {
        match self {
            Rule::IndexMap => "read in place",
            Rule::Epilogue => "epilogue",
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

/// A rule's offers, the most bytes first, then in the order of the groups.
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
                if self.rule_of(source, reader) == Some(rule) {
                    offers.push(Offer {
                        members: vec![producer, consumer],
                        bytes: self.bytes(value),
                    });
                }
            }
        }
        offers
    }

    /// The rule by which a group would join one that reads it.
    fn rule_of(&self, source: &Group, reader: &Group) -> Option<Rule> {
        if source.is_index_map(self.graph) {
            // A map of a map is offered last: a reader of both may be able to absorb one and not the other.
            let rule = match reader.is_index_map(self.graph) {
                true => Rule::Chain,
                false => Rule::IndexMap,
            };
            return Some(rule);
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

    /// Groups without a schedule of their own that read one value.
    fn siblings(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for id in self.groups.ids() {
            let Some(group) = self.kernel(id) else {
                continue;
            };
            for value in crate::cost::inputs(self.graph, &group.ops) {
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
