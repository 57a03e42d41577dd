//! An allocator that counts: allocations, and the peak of the bytes that are allocated.

#![allow(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the system allocator's contract is upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a piece of work allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated {
    /// The number of allocations.
    pub(crate) count: usize,
    /// The peak of the bytes, above those that there were.
    pub(crate) peak: usize,
}

/// Runs some work and counts what it allocates, on all threads.
pub(crate) fn counted<R>(work: impl FnOnce() -> R) -> (R, Allocated) {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let result = work();
    let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(live);
    (result, Allocated { count, peak })
}
