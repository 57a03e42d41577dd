//! A switch for tests: the n-th allocation of tensor memory on this thread fails.
//!
//! Only with the feature `fault-injection`. It shows that running out of memory leaves callers'
//! state unchanged and that a retry works.

use std::cell::Cell;

use crate::TensorError;

thread_local! {
    static UNTIL_FAILURE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `body`; inside, `n` allocations of tensor memory succeed and the next one fails, once.
pub fn with_failing_allocation<R>(n: usize, body: impl FnOnce() -> R) -> R {
    struct Reset(Option<usize>);
    impl Drop for Reset {
        fn drop(&mut self) {
            UNTIL_FAILURE.set(self.0);
        }
    }
    let _reset = Reset(UNTIL_FAILURE.replace(Some(n)));
    body()
}

pub(crate) fn allocate(bytes: usize) -> Result<(), TensorError> {
    match UNTIL_FAILURE.get() {
        None => Ok(()),
        Some(0) => {
            UNTIL_FAILURE.set(None);
            Err(TensorError::Allocation { bytes })
        }
        Some(n) => {
            UNTIL_FAILURE.set(Some(n - 1));
            Ok(())
        }
    }
}
