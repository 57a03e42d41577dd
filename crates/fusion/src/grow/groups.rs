//! Groups of ops during growth: the ops of each group, its readers and its predecessors.
//!
//! Every op has one home group. An index map may also belong to further groups, which recompute it. A group is
//! immutable: a join creates a new group, so a refusal stays valid for the pair it was found for.

use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Definition, Graph, OpId, RegionId, ValueId};
use kiln_symbolic_shape::{DimId, SymbolId};

use super::run_order::RunOrder;
use crate::budget::Budget;
use crate::candidate::Profile;
use crate::cost::{self, Cost};
use crate::op_kind::{OpKind, apart, is_index_map, is_widening};

/// A group's number.
pub(crate) type GroupId = usize;

/// Ops that will be one node.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Its ops, including recomputed ones.
    pub(crate) ops: BTreeSet<OpId>,
    /// The ops that belong to it.
    pub(crate) own: BTreeSet<OpId>,
    /// The cost of each of its ops as a separate kernel.
    pub(crate) apart: Vec<Cost>,
    /// Its properties as a kernel, if it can be one.
    pub(crate) profile: Option<Profile>,
    /// How it was formed.
    pub(crate) notes: Vec<String>,
}

/// The groups of one region of a graph.
pub(crate) struct Groups<'a> {
    graph: &'a Graph,
    groups: Vec<Option<Group>>,
    home: BTreeMap<OpId, GroupId>,
    holders: BTreeMap<OpId, BTreeSet<GroupId>>,
    users: BTreeMap<ValueId, Vec<OpId>>,
    escaping: BTreeSet<ValueId>,
    /// Per op, the ops of the region that bind the symbols of its sizes.
    sized_by: BTreeMap<OpId, Vec<OpId>>,
    order: RunOrder,
}

impl<'a> Groups<'a> {
    /// One group for each op of a region.
    pub(crate) fn new(graph: &'a Graph, region: RegionId) -> Self {
        let data = graph.region(region);
        let mut users: BTreeMap<ValueId, Vec<OpId>> = BTreeMap::new();
        for &op in &data.ops {
            for &operand in &graph.op(op).operands {
                let readers = users.entry(operand).or_default();
                if readers.last() != Some(&op) {
                    readers.push(op);
                }
            }
        }
        let mut groups = Self {
            graph,
            groups: Vec::new(),
            home: BTreeMap::new(),
            holders: BTreeMap::new(),
            users,
            escaping: data.results.iter().copied().collect(),
            sized_by: sized_by(graph, region),
            order: RunOrder::default(),
        };
        for &op in &data.ops {
            let ops = BTreeSet::from([op]);
            let id = groups.insert(Group {
                own: ops.clone(),
                ops,
                apart: Vec::new(),
                profile: None,
                notes: Vec::new(),
            });
            groups.order.push(id);
        }
        let ids: Vec<GroupId> = groups.ids().collect();
        for id in ids {
            groups.connect(id);
        }
        let first = first_ops(&groups.groups);
        groups.order.rank_by(first);
        groups
    }

    /// The current groups, in the order they were made.
    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> + '_ {
        let groups = self.groups.iter().enumerate();
        groups.filter_map(|(id, group)| group.as_ref().map(|_| id))
    }

    /// A group.
    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id).and_then(Option::as_ref)
    }

    /// A group, mutable.
    pub(crate) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id).and_then(Option::as_mut)
    }

    /// The group that owns an op.
    pub(crate) fn home(&self, op: OpId) -> Option<GroupId> {
        self.home.get(&op).copied()
    }

    /// The groups that a group reads from, with a value each, in order of first use.
    pub(crate) fn producers(&self, id: GroupId) -> Vec<(GroupId, ValueId)> {
        let Some(group) = self.get(id) else {
            return Vec::new();
        };
        let mut seen = BTreeSet::new();
        let inputs = cost::inputs(self.graph, &group.ops).into_iter();
        inputs
            .filter_map(|value| Some((self.home(defining(self.graph, value)?)?, value)))
            .filter(|(producer, _)| seen.insert(*producer))
            .collect()
    }

    /// The groups that read a value.
    pub(crate) fn readers(&self, value: ValueId) -> BTreeSet<GroupId> {
        let users = self.users.get(&value).into_iter().flatten();
        let holders = users.flat_map(|user| self.holders.get(user).into_iter().flatten());
        let op = defining(self.graph, value);
        holders
            .copied()
            .filter(|&holder| {
                let group = self.get(holder);
                group.is_some_and(|group| op.is_none_or(|op| !group.ops.contains(&op)))
            })
            .collect()
    }

    /// The results that the ops of a group provide to others when `joined` groups are one group.
    pub(crate) fn outputs(&self, own: &BTreeSet<OpId>, joined: &[GroupId]) -> Vec<ValueId> {
        let results = own.iter().flat_map(|&op| &self.graph.op(op).results);
        let is_read = |value| {
            self.readers(value)
                .iter()
                .any(|reader| !joined.contains(reader))
        };
        results
            .copied()
            .filter(|&value| self.escaping.contains(&value) || is_read(value))
            .collect()
    }

    /// Whether the region yields the value.
    pub(crate) fn is_escaping(&self, value: ValueId) -> bool {
        self.escaping.contains(&value)
    }

    /// Whether joining would make an op run both before and after the group, because a path leaves it and re-enters it.
    pub(crate) fn would_cycle(&self, joined: &[GroupId], budget: &Budget) -> bool {
        self.order.would_cycle(joined, budget)
    }

    /// Replaces several groups by one. Those in `kept` remain, since other groups still read them.
    pub(crate) fn join(
        &mut self,
        joined: &[GroupId],
        kept: Option<GroupId>,
        mut group: Group,
        budget: &Budget,
    ) -> GroupId {
        let ids = joined.iter().copied();
        let removed: Vec<GroupId> = ids.filter(|&id| Some(id) != kept).collect();
        for &id in &removed {
            self.remove(id);
        }
        if let Some(kept) = kept.and_then(|id| self.get(id)) {
            for op in &kept.own {
                group.own.remove(op);
            }
        }
        let id = self.insert(group);
        self.order.contract(&removed, id, budget);
        self.connect(id);
        if let Some(kept) = kept {
            self.order.clear_edges(kept);
            self.connect(kept);
        }
        id
    }

    fn remove(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id).and_then(Option::take) else {
            return;
        };
        for op in &group.ops {
            if let Some(holders) = self.holders.get_mut(op) {
                holders.remove(&id);
            }
        }
    }

    fn insert(&mut self, group: Group) -> GroupId {
        let id = self.groups.len();
        for &op in &group.own {
            self.home.insert(op, id);
        }
        for &op in &group.ops {
            self.holders.entry(op).or_default().insert(id);
        }
        self.groups.push(Some(group));
        id
    }

    /// Recomputes the edges of a group.
    fn connect(&mut self, id: GroupId) {
        let Some(group) = self.get(id).cloned() else {
            return;
        };
        let sized_by = group
            .ops
            .iter()
            .filter_map(|op| self.sized_by.get(op))
            .flatten();
        let before: BTreeSet<GroupId> = self
            .producers(id)
            .into_iter()
            .map(|(producer, _)| producer)
            .chain(sized_by.filter_map(|&op| self.home(op)))
            .filter(|&other| other != id)
            .collect();
        let results = group.own.iter().flat_map(|&op| &self.graph.op(op).results);
        let mut after: BTreeSet<GroupId> = results.flat_map(|&value| self.readers(value)).collect();
        for (op, by) in &self.sized_by {
            if by.iter().any(|op| group.own.contains(op)) {
                after.extend(self.holders.get(op).into_iter().flatten());
            }
        }
        for other in before {
            self.order.add_edge(other, id);
        }
        for other in after {
            if other != id {
                self.order.add_edge(id, other);
            }
        }
    }

    /// The groups in an order in which they can run, earliest ops first; `None` when they form a cycle.
    pub(crate) fn in_order(&self) -> Option<Vec<GroupId>> {
        self.order.sorted_by(first_ops(&self.groups))
    }
}

/// The first op of each group.
fn first_ops(groups: &[Option<Group>]) -> impl Fn(GroupId) -> Option<OpId> {
    |id| groups.get(id)?.as_ref()?.ops.first().copied()
}

impl Group {
    /// Whether it only moves elements by index, so that recomputing it is free.
    pub(crate) fn is_index_map(&self, graph: &Graph) -> bool {
        self.ops.iter().all(|&op| is_index_map(&graph.op(op).op))
    }

    /// Whether it is one conversion of bytes, or of 16-bit floats, to wider floats, apart from index maps.
    pub(crate) fn is_widening(&self, graph: &Graph) -> bool {
        let ops = self.ops.iter().copied();
        let mut others = ops.filter(|&op| !is_index_map(&graph.op(op).op));
        others.next().is_some_and(|op| is_widening(graph, op)) && others.next().is_none()
    }

    /// Whether one of its ops has its own schedule.
    pub(crate) fn is_heavy(&self, graph: &Graph) -> bool {
        self.ops
            .iter()
            .any(|&op| OpKind::of(&graph.op(op).op).is_heavy())
    }

    /// Whether it can be part of a kernel at all.
    pub(crate) fn is_kernel(&self, graph: &Graph) -> bool {
        self.ops.iter().all(|&op| apart(graph, op).is_none())
    }
}

/// The op that produces a value.
pub(crate) fn defining(graph: &Graph, value: ValueId) -> Option<OpId> {
    match graph.value(value).definition {
        Definition::Result { op, .. } => Some(op),
        Definition::Parameter { .. } => None,
    }
}

/// Per op of a region, the ops of the region that define symbols in its sizes.
fn sized_by(graph: &Graph, region: RegionId) -> BTreeMap<OpId, Vec<OpId>> {
    let ops = &graph.region(region).ops;
    let definers: BTreeMap<SymbolId, OpId> = ops
        .iter()
        .flat_map(|&op| graph.op(op).symbols.iter().map(move |&symbol| (symbol, op)))
        .collect();
    let mut result = BTreeMap::new();
    if definers.is_empty() {
        return result;
    }
    let mut known: BTreeMap<DimId, BTreeSet<OpId>> = BTreeMap::new();
    for &op in ops {
        let mut by: BTreeSet<OpId> = BTreeSet::new();
        for dim in dims_of(graph, op) {
            let of_dim = known
                .entry(dim)
                .or_insert_with(|| symbols_below(graph, dim, &definers));
            by.extend(of_dim.iter().copied());
        }
        by.remove(&op);
        if !by.is_empty() {
            result.insert(op, by.into_iter().collect());
        }
    }
    result
}

/// Every size in an op, its types, and its regions.
fn dims_of(graph: &Graph, op: OpId) -> BTreeSet<DimId> {
    let mut dims = BTreeSet::new();
    let mut pending = vec![op];
    while let Some(op) = pending.pop() {
        let data = graph.op(op);
        data.op.for_each_dim(&mut |dim| {
            dims.insert(dim);
        });
        let regions = data.regions.iter().map(|&region| graph.region(region));
        let parameters = regions.clone().flat_map(|region| &region.parameters);
        for &value in data.operands.iter().chain(&data.results).chain(parameters) {
            dims.extend(&graph.ty(value).innermost().dims);
        }
        pending.extend(regions.flat_map(|region| &region.ops));
    }
    dims
}

/// The ops that define symbols in a size, definitions of derived symbols followed.
fn symbols_below(graph: &Graph, dim: DimId, definers: &BTreeMap<SymbolId, OpId>) -> BTreeSet<OpId> {
    let table = graph.dims();
    let mut pending = table.symbols_in(dim);
    let mut seen: BTreeSet<SymbolId> = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(symbol) = pending.pop() {
        if !seen.insert(symbol) {
            continue;
        }
        found.extend(definers.get(&symbol));
        if let Some(definition) = table.definition(symbol) {
            pending.extend(table.symbols_in(definition));
        }
    }
    found
}
