//! Time, injected: nothing below asks the system for it.

use std::fmt;
use std::time::{Duration, Instant};

/// Tells how much time has gone by since some moment in the past.
pub trait Clock: Send + Sync {
    /// Never less than before.
    fn now(&self) -> Duration;
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
