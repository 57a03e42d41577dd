//! Time, injected: nothing here asks the system for it.

use std::time::Duration;

/// Tells how much time has gone by since some moment in the past.
///
/// A closure is one: `move || begin.elapsed()`. A clock that jumps makes times wrong and retries early or late; it
/// never makes a wait longer than its limit, since waiting is measured by the system.
pub trait Clock: Send + Sync {
    /// The time since that moment.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}
