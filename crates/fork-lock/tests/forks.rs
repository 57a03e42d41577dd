//! Children that are forked while a thread holds the lock.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use kiln_fork_lock::ForkLock;
use support::in_child;

#[test]
fn a_forked_child_keeps_the_value_of_an_unheld_lock() {
    let lock = ForkLock::new(|| 1_u8);
    *lock.lock() = 7;
    assert_eq!(in_child(|| *lock.lock()), 7);
    assert_eq!(format!("{lock:?}"), "ForkLock(7)");
}

#[test]
fn a_forked_child_resets_a_lock_that_a_parent_thread_held_and_so_does_its_own_child() {
    let lock = ForkLock::new(|| 1_u8);
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let shared = &lock;
        scope.spawn(move || {
            let mut value = shared.lock();
            *value = 7;
            held.send(()).unwrap();
            is_done.recv().unwrap();
        });
        is_held.recv().unwrap();
        let child = || {
            let first = *lock.lock();
            *lock.lock() += 1;
            // From several threads, and in a grandchild.
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| *lock.lock() += 1);
                }
            });
            10 * first + in_child(|| *lock.lock())
        };
        assert_eq!(in_child(child), 16);
        done.send(()).unwrap();
    });
    assert_eq!(*lock.lock(), 7);
}

#[test]
fn a_panic_under_the_lock_leaves_it_usable() {
    let lock = ForkLock::<Vec<u8>>::default();
    let panics = AssertUnwindSafe(|| {
        lock.lock().push(1);
        let _held = lock.lock();
        panic!("while it is held");
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(*lock.lock(), [1]);
}

#[test]
fn the_lock_excludes_other_threads() {
    let lock = ForkLock::<u32>::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1000).for_each(|_| *lock.lock() += 1));
        }
    });
    assert_eq!(*lock.lock(), 8000);
}
