//! Limits of a remote store: [`RemoteOptions`].

use std::time::Duration;

/// How much of a caller's time and memory a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// How long a read may take before its first byte arrives, and between any two pieces. 500 ms by default.
    pub deadline: Duration,
    /// A read slower than this many bytes per second, after its first [`deadline`](Self::deadline), is given up. 8 MiB per
    /// second by default.
    pub slowest: u64,
    /// How long one write may take; writes happen in the background. 30 s by default.
    pub write_deadline: Duration,
    /// Entries above this many bytes are neither read nor written. 1 GiB by default.
    pub max_entry_bytes: u64,
    /// The maximum number of bytes that wait to be written; further entries are dropped. 256 MiB by default.
    pub queue_bytes: u64,
    /// How long dropping the tier waits for pending writes. 5 s by default.
    pub drain: Duration,
    /// How long an absent entry is assumed to be still absent. 10 s by default.
    pub absent_for: Duration,
    /// How long another machine's claim on a compile is respected after it was first seen. By the local clock, so that the
    /// clocks of machines need not agree. 60 s by default.
    pub lease: Duration,
    /// How often the store is polled for another machine's compile. 100 ms by default.
    pub poll: Duration,
    /// When the circuit breaker opens.
    pub breaker: BreakerOptions,
    /// Whether this process only reads.
    pub read_only: bool,
}

/// When the circuit breaker of a failing store opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open the breaker. 3 by default.
    pub failures: u32,
    /// The first pause; it doubles each time the next attempt fails too. 1 s by default.
    pub first: Duration,
    /// The longest pause. 60 s by default.
    pub longest: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(500),
            slowest: 8 << 20,
            write_deadline: Duration::from_secs(30),
            max_entry_bytes: 1 << 30,
            queue_bytes: 256 << 20,
            drain: Duration::from_secs(5),
            absent_for: Duration::from_secs(10),
            lease: Duration::from_secs(60),
            poll: Duration::from_millis(100),
            breaker: BreakerOptions::default(),
            read_only: false,
        }
    }
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures: 3,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

impl RemoteOptions {
    /// The longest time that a read of this many bytes may take.
    pub(crate) fn read_limit(&self, bytes: u64) -> Duration {
        let transfer = Duration::from_secs_f64(bytes as f64 / self.slowest.max(1) as f64);
        self.deadline.saturating_add(transfer)
    }
}
