//! The time budget of compiling.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit on the time that goes into compiling, and the account of what went there. When it is spent, what has no code is left
/// to the interpreter.
///
/// Clones charge one account: the runtimes of a process may share it, each with a limit of its own.
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
    /// With an account of its own.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            nanoseconds: Arc::default(),
        }
    }

    /// Another limit on the same account.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self {
            limit,
            nanoseconds: Arc::clone(&self.nanoseconds),
        }
    }

    /// How much may be spent.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// How much is, by all who share the account; compiles count when they end.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.spent() >= self.limit
    }

    pub(crate) fn charge(&self, nanoseconds: u64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// A budget with an account of its own.
impl From<Duration> for CompileBudget {
    fn from(limit: Duration) -> Self {
        Self::new(limit)
    }
}
