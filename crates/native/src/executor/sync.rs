//! The locks and atomics of what a pool of memory keeps. The model checker's test replaces this module by its own.

pub(super) use std::sync::MutexGuard;
pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) use kiln_fork_lock::ForkLock;
