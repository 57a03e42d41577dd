//! Locks and once-cells that a forked child never blocks on forever: [`ForkLock`], [`ForkCell`] and [`ForkLazy`].
//!
//! A child has its parent's memory and one of its threads. A mutex that another thread held at the time of the fork stays
//! locked, and a once-cell that another thread was filling stays half filled: the child would wait for a thread that does
//! not exist. What the child does instead depends on the type:
//!
//! | type | for | in a child, where another thread was inside at the fork |
//! |---|---|---|
//! | [`ForkLock`] | caches, accounts, lists that can be rebuilt | starts over with a fresh value |
//! | [`ForkCell`] | a costly value, so made once | makes the value itself |
//! | [`ForkLazy`] | a static that is cheap to make | makes the value itself, at once |
//!
//! An uncontended access makes no system call.
//!
//! ```
//! use kiln_fork_lock::{ForkCell, ForkLock};
//!
//! let names = ForkLock::<Vec<&str>>::default();
//! names.lock().push("one");
//! assert_eq!(*names.lock(), ["one"]);
//!
//! let length = ForkCell::new();
//! assert_eq!(*length.get_or_init(|| names.lock().len()), 1);
//! ```

#![forbid(unsafe_code)]

mod cell;
mod lazy;
mod lock;

pub use cell::ForkCell;
pub use lazy::ForkLazy;
pub use lock::ForkLock;
