//! A mutex that starts over in a forked child, if another thread held it at the time of the fork.
//!
//! Such a child starts with a fresh value, created as in [`ForkLock::new`]: suitable for caches, counts and lists that
//! can be rebuilt, not for data that exist nowhere else.

use std::fmt;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use once_cell::race::OnceBox;

/// How often a child checks whether a lock is free after all: another of its own threads may have it.
const LOOKS: u32 = 50;

/// The wait between two checks.
const PAUSE: Duration = Duration::from_millis(1);

/// A mutex that cannot deadlock a forked child. The guarded data must be consistent between any two statements: a thread
/// that panics while it has the lock leaves it to the next.
pub struct ForkLock<T> {
    value: Mutex<T>,
    fresh: Fresh<T>,
    /// The process that made it.
    process: u32,
    /// Whether a child has found it held by a thread that does not exist.
    is_lost: AtomicBool,
    /// The child's replacement; a lock like this one, since it may fork too.
    own: OnceBox<ForkLock<T>>,
}

/// Makes the initial value.
type Fresh<T> = Arc<dyn Fn() -> T + Send + Sync>;

impl<T> ForkLock<T> {
    /// A lock around the result of `fresh`, now and in a child that finds it held forever.
    pub fn new(fresh: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::of(Arc::new(fresh))
    }

    fn of(fresh: Fresh<T>) -> Self {
        Self {
            value: Mutex::new(fresh()),
            fresh,
            process: process::id(),
            is_lost: AtomicBool::new(false),
            own: OnceBox::new(),
        }
    }

    /// The value, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_held())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A thread holds it, or held it when this process was forked.
    #[cold]
    fn lock_held(&self) -> MutexGuard<'_, T> {
        if process::id() == self.process {
            return self.value.lock().unwrap_or_else(PoisonError::into_inner);
        }
        if !self.is_lost.load(Ordering::Acquire) {
            for _ in 0..LOOKS {
                thread::sleep(PAUSE);
                if let Some(guard) = self.try_lock() {
                    return guard;
                }
            }
            self.is_lost.store(true, Ordering::Release);
        }
        let own = || Box::new(Self::of(Arc::clone(&self.fresh)));
        self.own.get_or_init(own).lock()
    }
}

impl<T: Default + 'static> Default for ForkLock<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug> fmt::Debug for ForkLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkLock").field(&*self.lock()).finish()
    }
}
