//! The work budget of one verification. Once it is spent nothing more is proved, which is always sound.

/// Steps left.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    pub(super) fn spend(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Fuel for one proof; `None` when all is spent.
    pub(super) fn fuel(&self, wanted: u64) -> Option<u64> {
        (self.left > 0).then(|| wanted.min(self.left))
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
