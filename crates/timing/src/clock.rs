//! Injected time: code reads a [`Clock`], and tests advance a [`ManualClock`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reports the time since some moment in the past.
///
/// A closure is a clock: `move || begin.elapsed()`. A clock that jumps makes times wrong, and retries early or late;
/// nothing else depends on it, since waiting is measured by the system.
pub trait Clock: Send + Sync {
    /// The time since that moment.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemClock")
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that advances only when told to, for tests. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock, saturating at 584 years.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(nanoseconds(by), Ordering::SeqCst);
    }

    /// Sets the clock, possibly to an earlier time.
    pub fn set(&self, to: Duration) {
        self.0.store(nanoseconds(to), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// A time in nanoseconds, saturating.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let manual = ManualClock::new();
        let same = manual.clone();
        manual.advance(Duration::from_secs(3));
        assert_eq!(same.now(), Duration::from_secs(3));
        same.set(Duration::from_secs(1));
        assert_eq!(manual.now(), Duration::from_secs(1));
        let system = SystemClock::default();
        assert!(system.now() <= system.now());
        assert_eq!(format!("{system:?}"), "SystemClock");
        let closure = || Duration::from_secs(7);
        assert_eq!(Clock::now(&closure), Duration::from_secs(7));
    }
}
