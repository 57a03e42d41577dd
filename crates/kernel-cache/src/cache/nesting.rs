//! Whether this thread is inside a compile. Such a thread never waits for another compile: with a work-stealing pool
//! below, that one may be waiting for this thread.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Inside a compile, until it is dropped.
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
