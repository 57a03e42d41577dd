//! The locks, atomics and threads of the pool. The model checker's test replaces this module.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use std::thread;

/// Rounds of spinning; the model checker has fewer.
pub(crate) const fn spins(rounds: u32) -> u32 {
    rounds
}
