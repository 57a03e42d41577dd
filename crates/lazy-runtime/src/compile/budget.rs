//! The time budget for compilation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit on the total compile time, and the account to which compiles are charged. When it is spent, steps without
/// code are interpreted.
///
/// Clones charge one account: the runtimes of a process may share it, each with its own limit.
///
/// ```
/// use kiln_lazy_runtime::CompileBudget;
/// use std::time::Duration;
///
/// let of_all = CompileBudget::new(Duration::from_secs(60));
/// let of_one = of_all.with_limit(Duration::from_secs(1));
/// assert_eq!((of_one.spent(), of_one.limit()), (Duration::ZERO, Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug)]
pub struct CompileBudget {
    limit: Duration,
    nanoseconds: Arc<AtomicU64>,
}

impl CompileBudget {
    /// A budget with a new account.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            nanoseconds: Arc::default(),
        }
    }

    /// The same account with a different limit.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self {
            limit,
            nanoseconds: Arc::clone(&self.nanoseconds),
        }
    }

    /// The limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// The time spent, by all sharers of the account; compiles are charged when they end.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Whether it is spent.
    pub fn is_spent(&self) -> bool {
        self.spent() >= self.limit
    }

    pub(crate) fn charge(&self, nanoseconds: u64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// A budget with a new account.
impl From<Duration> for CompileBudget {
    fn from(limit: Duration) -> Self {
        Self::new(limit)
    }
}
