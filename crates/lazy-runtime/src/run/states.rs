//! Idle run states, each kept where the thread that used it last looks first.
//!
//! Otherwise, threads that call one program concurrently would exchange states on every call, moving their contents
//! from one core's cache to another's.

use kiln_fork_lock::ForkLock;

use super::state::RunState;
use crate::per_thread::PerThread;

/// States that no run is using.
#[allow(
    clippy::vec_box,
    reason = "a state of some hundred bytes would be moved twice by every call"
)]
pub(crate) struct States<T: Send + 'static = RunState>(PerThread<ForkLock<Vec<Box<T>>>>);

impl<T: Send> Default for States<T> {
    fn default() -> Self {
        Self(PerThread::default())
    }
}

impl<T: Send> States<T> {
    /// A previously used state, by this thread if there is one, or by any other.
    pub(crate) fn take(&self) -> Option<Box<T>> {
        self.0.all().find_map(|states| states.lock().pop())
    }

    /// Keeps a state for later.
    pub(crate) fn give(&self, state: Box<T>) {
        self.0.own().lock().push(state);
    }

    /// Frees the memory of unused states.
    pub(crate) fn clear(&self) {
        for states in self.0.all() {
            states.lock().clear();
        }
    }
}

impl<T: Send> std::fmt::Debug for States<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("States")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_thread::tests::elsewhere;

    #[test]
    fn a_thread_takes_its_own_state_first() {
        let states = States::<u32>::default();
        states.give(Box::new(1));
        elsewhere(|| {
            states.give(Box::new(2));
            assert_eq!(states.take(), Some(Box::new(2)));
            assert_eq!(states.take(), Some(Box::new(1)), "rather than none");
            assert_eq!(states.take(), None);
            states.give(Box::new(3));
        });
        assert_eq!(states.take(), Some(Box::new(3)));
    }

    #[test]
    fn clear_drops_states_of_all_threads() {
        let states = States::<u32>::default();
        states.give(Box::new(1));
        elsewhere(|| states.give(Box::new(2)));
        states.clear();
        assert_eq!(states.take(), None);
    }
}
