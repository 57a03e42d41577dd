//! Back-off between failed starts of a worker, up to a limit. It reads no clock.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Starts that failed in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    delay: Option<Duration>,
    until: Duration,
}

impl Backoff {
    /// A start failed.
    pub(crate) fn failed(&mut self, now: Duration) {
        let delay = self
            .delay
            .map_or(FIRST, |delay| delay.saturating_mul(2).min(MAX_DELAY));
        self.delay = Some(delay);
        self.until = now.saturating_add(delay);
    }

    /// One succeeded.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Whether to wait before the next start.
    pub(crate) fn is_waiting(&self, now: Duration) -> bool {
        self.delay.is_some() && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_starts_back_off_after_failures_and_resume_at_once_after_a_success() {
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        assert!(!backoff.is_waiting(now));
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            backoff.failed(now);
            assert!(backoff.is_waiting(now));
            let delay = backoff.until - now;
            assert!(delay >= last && delay <= MAX_DELAY);
            last = delay;
            now = backoff.until;
            assert!(!backoff.is_waiting(now));
        }
        assert_eq!(last, MAX_DELAY);
        backoff.failed(now);
        backoff.succeeded();
        assert!(!backoff.is_waiting(now));
    }
}
