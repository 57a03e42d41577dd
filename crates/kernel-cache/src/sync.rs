//! The locks of single flight. The model checker's test replaces this module.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks. The data under every mutex of this crate is consistent between any two statements, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
