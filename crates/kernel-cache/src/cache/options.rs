//! Limits and times of a cache.

use std::time::Duration;

use crate::bounded::LruLimits;

/// How a cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// How much is kept in memory.
    pub memory: LruLimits,
    /// How long a compile by another caller, in this process or another, is trusted to finish. After that, a caller
    /// compiles beside it.
    pub trusted: Duration,
    /// The time until a compile that failed is tried again; each further time is twice as long.
    pub retry_first: Duration,
    /// The longest such time.
    pub retry_most: Duration,
    /// How many failures are remembered.
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
