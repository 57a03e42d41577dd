//! Limits and time-outs of a cache.

use std::time::Duration;

use crate::bounded::LruLimits;

/// The settings of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// How much is kept in memory.
    pub memory: LruLimits,
    /// How long a compile by another caller, in this process or another, is trusted to finish. After that, a caller
    /// compiles in parallel.
    pub trusted: Duration,
    /// The back-off after the first failed compile; it doubles with each further failure.
    pub retry_first: Duration,
    /// The maximum back-off.
    pub retry_most: Duration,
    /// The maximum number of remembered failures.
    pub remembered_failures: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            memory: LruLimits {
                entries: 10_000,
                bytes: 1 << 30,
            },
            trusted: Duration::from_secs(30),
            retry_first: Duration::from_secs(1),
            retry_most: Duration::from_secs(300),
            remembered_failures: 1000,
        }
    }
}
