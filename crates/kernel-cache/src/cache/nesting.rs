//! Tracks whether this thread is inside a compile. Such a thread never waits for another compile: under a work-stealing
//! pool that compile may be waiting for this thread.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Marks the thread as compiling until dropped.
pub(super) struct Nesting(());

impl Nesting {
    pub(super) fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for Nesting {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Whether this thread is inside a compile.
pub(super) fn is_nested() -> bool {
    DEPTH.get() > 0
}
