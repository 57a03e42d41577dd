//! Guards: conditions under which a value is demanded. Elements excluded by a border, by an operand of a concatenation
//! or by a window's padding are not read.
//!
//! A guard is a set of tests `0 <= index < size` and of other conditions, all of which must be true. Where a test is
//! false, the computed value is irrelevant, but nothing may fault.

use std::collections::{BTreeSet, HashMap};

use kiln_kernel::NodeId;
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::DimId;

use super::context::RegionLowering;

/// A guard of one lowering; the first has no condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GuardId(usize);

impl GuardId {
    /// No condition.
    pub(super) const NONE: GuardId = GuardId(0);
}

/// The conjunction of a guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Guard {
    /// Indices that must be in `0..size`.
    pub(super) tests: BTreeSet<(NodeId, DimId)>,
    /// Conditions.
    pub(super) conditions: BTreeSet<NodeId>,
}

/// The guards of a lowering, without duplicates.
#[derive(Debug)]
pub(super) struct Guards {
    guards: Vec<Guard>,
    ids: HashMap<Guard, GuardId>,
}

impl Default for Guards {
    fn default() -> Self {
        let none = Guard::default();
        Self {
            ids: HashMap::from([(none.clone(), GuardId::NONE)]),
            guards: vec![none],
        }
    }
}

impl Guards {
    pub(super) fn get(&self, id: GuardId) -> &Guard {
        &self.guards[id.0]
    }

    pub(super) fn intern(&mut self, guard: Guard) -> GuardId {
        if let Some(&id) = self.ids.get(&guard) {
            return id;
        }
        let id = GuardId(self.guards.len());
        self.guards.push(guard.clone());
        self.ids.insert(guard, id);
        id
    }
}

impl RegionLowering<'_> {
    /// The guard with more tests and conditions.
    pub(super) fn guard_and(
        &mut self,
        guard: GuardId,
        tests: impl IntoIterator<Item = (NodeId, DimId)>,
        conditions: impl IntoIterator<Item = NodeId>,
    ) -> GuardId {
        let mut joined = self.guards.get(guard).clone();
        joined.tests.extend(tests);
        joined.conditions.extend(conditions);
        self.guards.intern(joined)
    }

    /// The part of a guard that can be evaluated when only the outer axes are known.
    pub(super) fn ambient_guard(&mut self, guard: GuardId) -> GuardId {
        if guard == GuardId::NONE {
            return guard;
        }
        let whole = self.guards.get(guard).clone();
        let mut part = Guard::default();
        for (index, size) in whole.tests {
            if self.is_ambient(index) {
                part.tests.insert((index, size));
            }
        }
        for condition in whole.conditions {
            if self.is_ambient(condition) {
                part.conditions.insert(condition);
            }
        }
        self.guards.intern(part)
    }

    /// All tests and conditions as one `bool`; `None` if there are none.
    pub(super) fn condition(
        &mut self,
        tests: &BTreeSet<(NodeId, DimId)>,
        conditions: &BTreeSet<NodeId>,
    ) -> Option<NodeId> {
        let mut all = None;
        for &(index, size) in tests {
            let (zero, end) = (self.b.integer(0), self.b.size(size));
            let from = self.b.apply(ScalarOp::Ge, [index, zero]);
            let to = self.b.apply(ScalarOp::Lt, [index, end]);
            for test in [from, to] {
                all = Some(self.and(all, test));
            }
        }
        for &condition in conditions {
            all = Some(self.and(all, condition));
        }
        all
    }

    fn and(&mut self, all: Option<NodeId>, next: NodeId) -> NodeId {
        match all {
            Some(all) => self.b.apply(ScalarOp::And, [all, next]),
            None => next,
        }
    }
}
