//! Locks and once-cells that cannot deadlock a forked child: [`ForkLock`], [`ForkCell`] and [`ForkLazy`].
//!
//! A forked child has a copy of its parent's memory, but only one of its threads. A mutex that another thread held at
//! the time of the fork stays locked, and a once-cell that another thread was filling stays half filled: the child
//! would wait for a thread that does not exist. What the child does instead depends on the type:
//!
//! | type | for | in a child, if another thread was using it at the fork |
//! |---|---|---|
//! | [`ForkLock`] | caches, counts and lists that can be rebuilt | starts over with a fresh value |
//! | [`ForkCell`] | a value that is costly to compute | computes the value itself |
//! | [`ForkLazy`] | a static that is cheap to compute | computes the value itself, without waiting |
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
