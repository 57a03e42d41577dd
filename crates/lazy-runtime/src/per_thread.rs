//! One slot per thread, as far as slots are available: data written by every call, in cache lines that no other
//! thread's calls contend for.

use std::array;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// The number of slots; additional threads share them.
const PLACES: usize = 16;

/// A value per slot.
#[derive(Debug)]
pub(crate) struct PerThread<T>([CachePadded<T>; PLACES]);

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self(array::from_fn(|_| CachePadded::default()))
    }
}

impl<T> PerThread<T> {
    /// This thread's value.
    pub(crate) fn own(&self) -> &T {
        &self.0[own_place()]
    }

    /// All values, this thread's first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        let (before, from_own) = self.0.split_at(own_place());
        from_own.iter().chain(before).map(|place| &**place)
    }
}

/// This thread's slot: threads are numbered in order of first use.
fn own_place() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static PLACE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PLACES);
    // A thread that is ending no longer has its own slot.
    PLACE.try_with(|place| *place).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::thread;

    /// The value returned on a thread whose slot differs from this one's.
    pub(crate) fn elsewhere<T: Send>(ask: impl Fn() -> T + Sync) -> T {
        let here = own_place();
        loop {
            let answer = thread::scope(|scope| {
                let there = scope.spawn(|| (own_place() != here).then(&ask));
                there.join().unwrap()
            });
            if let Some(answer) = answer {
                return answer;
            }
        }
    }

    #[test]
    fn each_thread_has_its_own_value_and_sees_all() {
        let numbers = PerThread::<AtomicUsize>::default();
        numbers.own().store(1, Ordering::Relaxed);
        elsewhere(|| numbers.own().store(2, Ordering::Relaxed));
        assert_eq!(numbers.own().load(Ordering::Relaxed), 1);
        let all: Vec<usize> = numbers
            .all()
            .map(|number| number.load(Ordering::Relaxed))
            .collect();
        assert_eq!((all[0], all.len(), all.iter().sum()), (1, PLACES, 3));
    }
}
