//! A cell that is filled once, by one thread of a process at a time.
//!
//! The value itself is published without a lock, so a reader never blocks. Invariant: once [`ForkCell::get`] has
//! returned a value, the cell keeps that value for its lifetime.

use std::fmt;

use once_cell::race::OnceBox;

use crate::ForkLock;

/// A once-cell for costly values. In a forked child whose parent was making the value on another thread, the child makes
/// its own after a short wait.
pub struct ForkCell<T> {
    value: OnceBox<T>,
    /// Held while the value is made. It guards no data, so a panic cannot leave inconsistent data.
    making: ForkLock<()>,
}

impl<T> ForkCell<T> {
    /// An empty cell.
    pub fn new() -> Self {
        Self {
            value: OnceBox::new(),
            making: ForkLock::default(),
        }
    }

    /// The value, once there is one. Never blocks.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, which is made now if there is none. Other threads that request it wait until it is made.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<T, std::convert::Infallible>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// The value, made now if there is none.
    ///
    /// # Errors
    /// Those of `make`. The cell then stays empty, and the next access tries again.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _making = self.making.lock();
        // Another thread may have made it meanwhile.
        self.value.get_or_try_init(|| make().map(Box::new))
    }
}

impl<T> Default for ForkCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for ForkCell<T> {
    fn from(value: T) -> Self {
        let cell = Self::new();
        cell.value.get_or_init(|| Box::new(value));
        cell
    }
}

impl<T: fmt::Debug> fmt::Debug for ForkCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkCell").field(&self.get()).finish()
    }
}
