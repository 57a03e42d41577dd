//! The locks of the compile queue. The model checker's test replaces this module.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
use std::time::Duration;

/// Locks. The data under every mutex of this crate is consistent between any two statements, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits while a condition holds, up to a time limit.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    let waited = changed.wait_timeout_while(guard, limit, condition);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
