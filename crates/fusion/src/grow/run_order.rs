//! The dependences between groups, and a topological order of them, maintained as groups join.
//!
//! Groups need not be contiguous in the program: a group may contain an early op and a late one. So op numbers do not
//! show whether a path can lead back to a group. Each group has a rank in an order that respects every edge, and no
//! group ranked above all joined groups can lead back to them. A join reorders only the ranks between its members, as
//! in the dynamic topological order of Pearce and Kelly (JEA 11, 2006).

use std::collections::BTreeSet;

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::graphmap::DiGraphMap;

use super::groups::GroupId;
use crate::budget::Budget;

/// The edges between groups, and a topological order of them.
#[derive(Debug, Default)]
pub(super) struct RunOrder {
    edges: DiGraphMap<GroupId, ()>,
    /// Groups by rank; `None` if a group was joined with another.
    sequence: Vec<Option<GroupId>>,
    /// Ranks by group.
    ranks: Vec<usize>,
}

impl RunOrder {
    /// Adds a group after all others.
    pub(super) fn push(&mut self, id: GroupId) {
        self.edges.add_node(id);
        self.set_rank(id, self.sequence.len());
        self.sequence.push(Some(id));
    }

    /// Makes `after` wait for `before`.
    pub(super) fn add_edge(&mut self, before: GroupId, after: GroupId) {
        self.edges.add_edge(before, after, ());
    }

    /// Removes a group's edges. It keeps its rank.
    pub(super) fn clear_edges(&mut self, id: GroupId) {
        self.edges.remove_node(id);
        self.edges.add_node(id);
    }

    /// Ranks all groups again from their edges, those with the minimum `key` first. Keeps the ranks if there is a cycle.
    pub(super) fn rank_by<K: Ord>(&mut self, key: impl Fn(GroupId) -> K) {
        let Some(order) = self.sorted_by(key) else {
            return;
        };
        for (rank, &id) in order.iter().enumerate() {
            self.set_rank(id, rank);
        }
        self.sequence = order.into_iter().map(Some).collect();
    }

    /// Whether joining these groups would create a cycle: a path leaves them and re-enters them. Each step is charged
    /// to the budget; if that runs out, a path is assumed.
    pub(super) fn would_cycle(&self, joined: &[GroupId], budget: &Budget) -> bool {
        let last = joined.iter().map(|&id| self.rank(id)).max();
        let last = last.unwrap_or_default();
        let mut seen = BTreeSet::new();
        let mut pending: Vec<GroupId> = Vec::new();
        for &id in joined {
            let outside = self.neighbors(id).filter(|next| !joined.contains(next));
            pending.extend(outside);
        }
        while let Some(id) = pending.pop() {
            if joined.contains(&id) {
                return true;
            }
            if self.rank(id) > last || !seen.insert(id) {
                continue;
            }
            budget.spend(1 + self.neighbors(id).count() as u64);
            if budget.is_spent() {
                return true;
            }
            pending.extend(self.neighbors(id));
        }
        false
    }

    /// Replaces several groups, which no path leaves and re-enters, by a new group without edges.
    ///
    /// Of the groups that rank between the members, those that depend on a member come after the new group and the others
    /// before it; the order within each part is unchanged.
    pub(super) fn contract(&mut self, joined: &[GroupId], into: GroupId, budget: &Budget) {
        let ranks = joined.iter().map(|&id| self.rank(id));
        let Some((first, last)) = ranks.clone().min().zip(ranks.max()) else {
            self.push(into);
            return;
        };
        let window: Vec<GroupId> = self
            .sequence
            .get(first..=last)
            .unwrap_or_default()
            .iter()
            .flatten()
            .copied()
            .collect();
        budget.spend(window.len() as u64);
        let mut waits: BTreeSet<GroupId> = joined.iter().copied().collect();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for id in window {
            if joined.contains(&id) {
                continue;
            }
            let mut earlier = self.edges.neighbors_directed(id, Incoming);
            if earlier.any(|earlier| waits.contains(&earlier)) {
                waits.insert(id);
                after.push(id);
            } else {
                before.push(id);
            }
        }
        for &id in joined {
            self.edges.remove_node(id);
        }
        self.edges.add_node(into);
        let order = before.into_iter().chain([into]).chain(after);
        let mut order = order.map(Some).chain(std::iter::repeat(None));
        for rank in first..=last {
            let id = order.next().flatten();
            if let Some(slot) = self.sequence.get_mut(rank) {
                *slot = id;
            }
            if let Some(id) = id {
                self.set_rank(id, rank);
            }
        }
    }

    /// All groups in topological order, choosing the ready one with the minimum `key`; `None` if there is a cycle.
    pub(super) fn sorted_by<K: Ord>(&self, key: impl Fn(GroupId) -> K) -> Option<Vec<GroupId>> {
        let waits_for = |id| self.edges.neighbors_directed(id, Incoming).count();
        let mut waiting: Vec<usize> = vec![0; self.ranks.len()];
        let mut ready: BTreeSet<(K, GroupId)> = BTreeSet::new();
        for id in self.edges.nodes() {
            match waits_for(id) {
                0 => {
                    ready.insert((key(id), id));
                }
                count => {
                    if let Some(entry) = waiting.get_mut(id) {
                        *entry = count;
                    }
                }
            }
        }
        let mut order = Vec::with_capacity(self.edges.node_count());
        while let Some((_, id)) = ready.pop_first() {
            order.push(id);
            for next in self.neighbors(id) {
                if let Some(count) = waiting.get_mut(next) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        ready.insert((key(next), next));
                    }
                }
            }
        }
        (order.len() == self.edges.node_count()).then_some(order)
    }

    fn neighbors(&self, id: GroupId) -> impl Iterator<Item = GroupId> {
        self.edges.neighbors_directed(id, Outgoing)
    }

    fn rank(&self, id: GroupId) -> usize {
        self.ranks.get(id).copied().unwrap_or_default()
    }

    fn set_rank(&mut self, id: GroupId, rank: usize) {
        if self.ranks.len() <= id {
            self.ranks.resize(id + 1, 0);
        }
        if let Some(entry) = self.ranks.get_mut(id) {
            *entry = rank;
        }
    }

    /// Whether every edge leads to a higher rank.
    #[cfg(test)]
    fn is_sound(&self) -> bool {
        let mut edges = self.edges.all_edges();
        edges.all(|(before, after, ())| self.rank(before) < self.rank(after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AMPLE: u64 = 1 << 30;

    /// Groups `0..n` with edges, ranked.
    fn order_of(n: usize, edges: &[(GroupId, GroupId)]) -> RunOrder {
        let mut order = RunOrder::default();
        for id in 0..n {
            order.push(id);
        }
        for &(before, after) in edges {
            order.add_edge(before, after);
        }
        order.rank_by(|id| id);
        order
    }

    /// Joins groups as fusion does: the edges of the members become those of the new group.
    fn join(order: &mut RunOrder, joined: &[GroupId], into: GroupId) {
        let of = |direction| {
            let neighbors = joined
                .iter()
                .flat_map(|&id| order.edges.neighbors_directed(id, direction));
            neighbors
                .filter(|id| !joined.contains(id))
                .collect::<Vec<_>>()
        };
        let (before, after) = (of(Incoming), of(Outgoing));
        order.contract(joined, into, &Budget::new(AMPLE));
        for id in before {
            order.add_edge(id, into);
        }
        for id in after {
            order.add_edge(into, id);
        }
    }

    #[test]
    fn a_path_through_a_group_of_early_and_late_ops_is_a_cycle() {
        // 0 feeds 2; 1 feeds 3, which feeds 4. Joined, 0 and 4 are one group between 1 and 2.
        let mut order = order_of(5, &[(0, 2), (1, 3), (3, 4), (1, 2)]);
        let budget = Budget::new(AMPLE);
        assert!(!order.would_cycle(&[0, 4], &budget));
        join(&mut order, &[0, 4], 5);
        assert!(order.is_sound());
        assert!(order.would_cycle(&[1, 2], &budget));
        assert!(!order.would_cycle(&[3, 5], &budget));
    }

    #[test]
    fn cycle_search_skips_groups_ranked_above_the_joined_ones() {
        let edges: Vec<_> = (0..999).map(|id| (id, id + 1)).collect();
        let order = order_of(1000, &edges);
        let budget = Budget::new(AMPLE);
        assert!(!order.would_cycle(&[10, 11], &budget));
        assert!(budget.spent() < 8, "{} steps", budget.spent());
    }

    proptest! {
        /// Joins without a cycle leave an order that respects every edge, and a search over all edges finds a cycle exactly
        /// where the bounded one does.
        #[test]
        fn ranks_stay_valid_after_any_joins(
            edges in prop::collection::vec((0_usize..14, 0_usize..14), 0..40),
            joins in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 2..4), 0..14),
        ) {
            // An edge from a lower to a higher number of a fixed shuffle: no cycle to begin with.
            let edges: Vec<_> = edges
                .into_iter()
                .filter(|(a, b)| (a * 5) % 14 < (b * 5) % 14)
                .collect();
            let mut order = order_of(14, &edges);
            prop_assert!(order.is_sound());
            for picks in joins {
                let alive: Vec<GroupId> = order.edges.nodes().collect();
                let mut joined: Vec<GroupId> = picks.iter().map(|pick| *pick.get(&alive)).collect();
                joined.sort_unstable();
                joined.dedup();
                let into = order.ranks.len();
                let mut contracted = order_of(0, &[]);
                contracted.edges = order.edges.clone();
                contracted.ranks = order.ranks.clone();
                contracted.sequence = order.sequence.clone();
                join(&mut contracted, &joined, into);
                let cycles = contracted.sorted_by(|id| id).is_none();
                prop_assert_eq!(order.would_cycle(&joined, &Budget::new(AMPLE)), cycles);
                if !cycles {
                    order = contracted;
                    prop_assert!(order.is_sound());
                }
            }
        }
    }
}
