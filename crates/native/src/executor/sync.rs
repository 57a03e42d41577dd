//! The locks and atomics of the memory pool. The model checker's test replaces this module.

pub(super) use std::sync::MutexGuard;
pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) use kiln_fork_lock::ForkLock;
