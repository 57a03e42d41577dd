//! Once-cells in children that are forked while another thread fills them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use kiln_fork_lock::{ForkCell, ForkLazy};
use support::in_child;

#[test]
fn a_cell_is_filled_once_among_threads() {
    let (cell, made) = (ForkCell::new(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cell.get_or_init(|| made.fetch_add(1, Ordering::SeqCst)));
        }
    });
    assert_eq!((cell.get(), made.into_inner()), (Some(&0), 1));
    assert_eq!(format!("{cell:?}"), "ForkCell(Some(0))");
}

#[test]
fn a_forked_child_fills_a_cell_that_a_parent_thread_was_filling() {
    let cell = ForkCell::<u8>::new();
    let (begun, is_begun) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let shared = &cell;
        scope.spawn(move || {
            shared.get_or_init(|| {
                begun.send(()).unwrap();
                is_done.recv().unwrap();
                1
            });
        });
        is_begun.recv().unwrap();
        // In the child, and in a grandchild.
        assert_eq!(
            in_child(|| *cell.get_or_init(|| in_child(|| *cell.get_or_init(|| 7)))),
            7
        );
        done.send(()).unwrap();
    });
    assert_eq!(cell.get(), Some(&1));
}

#[test]
fn a_failed_or_panicking_initializer_leaves_the_cell_empty() {
    let cell = ForkCell::<u8>::new();
    assert_eq!(cell.get_or_try_init(|| Err("no")), Err("no"));
    let panics = AssertUnwindSafe(|| *cell.get_or_init(|| panic!("while it is filled")));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_or_try_init(|| Ok::<_, ()>(3)), Ok(&3));
    assert_eq!(ForkCell::from(4).get_or_init(|| 5), &4);
}

#[test]
fn a_forked_child_makes_a_static_that_a_parent_thread_was_making() {
    static GATE: AtomicU32 = AtomicU32::new(0);
    static VALUE: ForkLazy<u8> = ForkLazy::new(|| {
        // The first call, from the parent's thread, blocks until it is released.
        if GATE.fetch_add(1, Ordering::SeqCst) == 0 {
            while GATE.load(Ordering::SeqCst) < 100 {
                std::hint::spin_loop();
            }
        }
        9
    });
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*VALUE, 9));
        while GATE.load(Ordering::SeqCst) == 0 {
            std::hint::spin_loop();
        }
        assert_eq!(in_child(|| *VALUE), 9);
        GATE.store(100, Ordering::SeqCst);
    });
}
