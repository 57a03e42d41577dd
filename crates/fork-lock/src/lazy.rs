//! A static that is computed on first use, without any lock.

use std::fmt;
use std::ops::Deref;

use once_cell::race::OnceBox;

/// A value that is made on first access. Threads that access it at the same time may each make it; the first to finish
/// publishes its value and the others drop theirs. So `make` must be cheap and without side effects.
///
/// ```
/// use kiln_fork_lock::ForkLazy;
///
/// static PRIMES: ForkLazy<Vec<u32>> = ForkLazy::new(|| vec![2, 3, 5]);
/// assert_eq!(PRIMES.len(), 3);
/// ```
pub struct ForkLazy<T> {
    value: OnceBox<T>,
    make: fn() -> T,
}

impl<T> ForkLazy<T> {
    /// A value that is not made yet.
    pub const fn new(make: fn() -> T) -> Self {
        Self {
            value: OnceBox::new(),
            make,
        }
    }
}

impl<T> Deref for ForkLazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get_or_init(|| Box::new((self.make)()))
    }
}

impl<T: fmt::Debug> fmt::Debug for ForkLazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkLazy").field(&self.value.get()).finish()
    }
}
