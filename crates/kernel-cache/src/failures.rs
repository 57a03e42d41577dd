//! Failed compiles, remembered with an exponential back-off.
//!
//! The first retry is due after a short time, each further one after twice as long, up to a limit. Failures are kept
//! per process: on disk they would outlive their cause.

use std::sync::Arc;
use std::time::Duration;

use crate::bounded::{BoundedLru, LruLimits};
use crate::key::KeyDigest;

/// Failures by key.
pub(crate) struct Failures<E> {
    remembered: BoundedLru<KeyDigest, Remembered<E>>,
    first: Duration,
    most: Duration,
}

struct Remembered<E> {
    error: Arc<E>,
    at: Duration,
    delay: Duration,
}

impl<E> Failures<E> {
    pub(crate) fn new(first: Duration, most: Duration, entries: usize) -> Self {
        let limits = LruLimits {
            entries,
            bytes: usize::MAX,
        };
        Self {
            remembered: BoundedLru::new(limits),
            first,
            most,
        }
    }

    /// The failure of a key that is not due for a retry, and the time until it is.
    pub(crate) fn get(&mut self, key: KeyDigest, now: Duration) -> Option<(Arc<E>, Duration)> {
        let failure = self.remembered.get(&key)?;
        // If the clock went back, the retry is due.
        let since = now.checked_sub(failure.at)?;
        let left = failure.delay.checked_sub(since)?;
        (left > Duration::ZERO).then(|| (Arc::clone(&failure.error), left))
    }

    /// Records a failure.
    pub(crate) fn note(&mut self, key: KeyDigest, error: Arc<E>, now: Duration) {
        let before = self.remembered.peek(&key);
        let delay = before.map_or(self.first, |failure| {
            failure.delay.saturating_mul(2).min(self.most)
        });
        let failure = Remembered {
            error,
            at: now,
            delay,
        };
        drop(self.remembered.insert(key, failure, 0));
    }

    /// Removes the failure of a key.
    pub(crate) fn forget(&mut self, key: KeyDigest) {
        self.remembered.remove(&key);
    }

    /// Removes all failures.
    pub(crate) fn clear(&mut self) {
        self.remembered.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_grow_up_to_a_limit() {
        let second = Duration::from_secs;
        let key = KeyDigest::of(b"x");
        let mut failures = Failures::new(second(1), second(3), 2);
        assert!(failures.get(key, second(0)).is_none());
        let mut now = second(100);
        for delay in [1, 2, 3, 3] {
            failures.note(key, Arc::new("no"), now);
            let (error, left) = failures.get(key, now).expect("it is too early");
            assert_eq!((*error, left), ("no", second(delay)));
            now += second(delay);
            assert!(failures.get(key, now).is_none());
        }
        assert!(
            failures.get(key, second(1)).is_none(),
            "the clock went back"
        );
        failures.note(key, Arc::new("no"), now);
        failures.forget(key);
        assert!(failures.get(key, now).is_none());
        failures.note(key, Arc::new("no"), now);
        failures.clear();
        assert!(failures.get(key, now).is_none());
    }
}
