//! The work budget of a plan: operations are counted, not timed, so a graph gets the same plan on every machine.

use std::cell::Cell;

/// A plan's work budget. It only decreases, so all work that is charged to it terminates.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    spent: Cell<u64>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            spent: Cell::new(0),
        }
    }

    pub(crate) fn spend(&self, steps: u64) {
        self.spent.set(self.spent.get().saturating_add(steps));
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }

    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent.get())
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left() == 0
    }
}
