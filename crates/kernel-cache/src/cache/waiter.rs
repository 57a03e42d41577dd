//! [`Waiter`]: waits for a compile that another thread runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Found;
use super::inner::{Inner, Shared};
use crate::error::{CacheError, Failure};
use crate::flight::{Follow, Waited};
use crate::key::CacheKey;
use crate::stats::Counters;

/// A registered waiter; dropping it gives up the wait, and the compile continues.
pub struct Waiter<V, E> {
    inner: Arc<Inner<V, E>>,
    key: CacheKey,
    follow: Follow<Shared<V, E>>,
    /// Whether its result counts as a hit; not for the leader.
    is_counted: bool,
}

/// Cancels a wait from another thread.
pub struct Canceller(Box<dyn Fn() + Send + Sync>);

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> Waiter<V, E> {
    pub(super) fn new(
        inner: Arc<Inner<V, E>>,
        key: CacheKey,
        follow: Follow<Shared<V, E>>,
    ) -> Self {
        Self {
            inner,
            key,
            follow,
            is_counted: true,
        }
    }

    /// The same for the caller whose compile it was.
    pub(super) fn of_leader(self) -> Self {
        Self {
            is_counted: false,
            ..self
        }
    }

    /// Waits up to a limit for the result. A wait that ended without one can be repeated.
    ///
    /// # Errors
    /// The compile's own error; the compile panicked, was given up, or is not done yet; the wait was cancelled.
    pub fn wait(&self, limit: Duration) -> Result<Found<V>, Failure<E>> {
        let counters = &self.inner.counters;
        let key = || self.key.clone();
        let error = match self.follow.wait(limit) {
            Waited::Done(result) => {
                let result = result.into_found(&self.key);
                if result.is_ok() && self.is_counted {
                    Counters::count(&counters.shared);
                }
                return result;
            }
            Waited::Abandoned => CacheError::Abandoned { key: key() },
            Waited::Timeout => {
                Counters::count(&counters.timeout);
                CacheError::Timeout { key: key(), limit }
            }
            Waited::Cancelled => {
                Counters::count(&counters.cancelled);
                CacheError::Cancelled { key: key() }
            }
        };
        Err(Failure::Cache(error))
    }

    /// Waits up to a limit for the end of the compile; returns whether it ended or the wait was cancelled. Counts
    /// nothing; [`wait`](Self::wait) returns the result.
    pub fn is_over_within(&self, limit: Duration) -> bool {
        !matches!(self.follow.wait(limit), Waited::Timeout)
    }

    /// A handle that cancels this wait from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Box::new(self.follow.canceller()))
    }
}

impl Canceller {
    /// Cancels the wait; does nothing if it already ended.
    pub fn cancel(&self) {
        (self.0)();
    }
}

impl<V, E> fmt::Debug for Waiter<V, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Waiter({})", self.key)
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Canceller")
    }
}
