//! Single flight among the threads of a process: the first caller of a key leads, later ones follow and wait with a
//! limit.
//!
//! A leader that ends without a result wakes its followers. One that exceeds its trusted time is not waited for: the
//! next caller leads concurrently. Locks are taken map first, then slot, and none is held while a value is made. All
//! waiting is on `crate::sync`, so that a model checker can run every interleaving of this file.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sync::{Arc, Condvar, Mutex, lock};

/// The keys being compiled.
pub(crate) struct Flights<K, T> {
    slots: Mutex<BTreeMap<K, Arc<Slot<T>>>>,
}

/// The role of a caller.
pub(crate) enum Joined<K: Ord, T: Clone> {
    /// Compiles.
    Lead(Lead<K, T>),
    /// Waits.
    Follow(Follow<T>),
}

/// The leader's duty to finish.
pub(crate) struct Lead<K: Ord, T: Clone> {
    flights: Arc<Flights<K, T>>,
    key: K,
    slot: Arc<Slot<T>>,
    /// Whether an earlier leader took too long.
    pub(crate) is_takeover: bool,
}

/// A registered waiter.
pub(crate) struct Follow<T> {
    slot: Arc<Slot<T>>,
    id: u64,
}

/// The result of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    /// The leader's result.
    Done(T),
    /// The leader left.
    Abandoned,
    /// No result yet.
    Timeout,
    /// Cancelled without a result.
    Cancelled,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    outcome: Outcome<T>,
    /// The waiters, with their cancelled flags.
    followers: BTreeMap<u64, bool>,
    next_id: u64,
    began: Duration,
}

enum Outcome<T> {
    Open,
    Done(T),
    Abandoned,
}

impl<K: Ord + Copy, T: Clone> Flights<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(BTreeMap::new()),
        }
    }

    /// Joins the callers that want `key` at the time `now`. A leader of `trusted` or longer gets another leader in
    /// parallel.
    pub(crate) fn join(self: &Arc<Self>, key: K, now: Duration, trusted: Duration) -> Joined<K, T> {
        let mut slots = lock(&self.slots);
        let before = slots.get(&key);
        if let Some(slot) = before {
            let mut state = lock(&slot.state);
            let is_trusted = now.saturating_sub(state.began) < trusted;
            if is_trusted || !matches!(state.outcome, Outcome::Open) {
                let id = state.next_id;
                state.next_id += 1;
                state.followers.insert(id, false);
                let slot = Arc::clone(slot);
                return Joined::Follow(Follow { slot, id });
            }
        }
        let is_takeover = before.is_some();
        let slot = Arc::new(Slot {
            state: Mutex::new(State {
                outcome: Outcome::Open,
                followers: BTreeMap::new(),
                next_id: 0,
                began: now,
            }),
            changed: Condvar::new(),
        });
        slots.insert(key, Arc::clone(&slot));
        Joined::Lead(Lead {
            flights: Arc::clone(self),
            key,
            slot,
            is_takeover,
        })
    }

    /// The number of keys being compiled.
    pub(crate) fn len(&self) -> usize {
        lock(&self.slots).len()
    }
}

impl<K: Ord, T: Clone> Lead<K, T> {
    /// A waiter for this leader.
    pub(crate) fn follow(&self) -> Follow<T> {
        let mut state = lock(&self.slot.state);
        let id = state.next_id;
        state.next_id += 1;
        state.followers.insert(id, false);
        drop(state);
        let slot = Arc::clone(&self.slot);
        Follow { slot, id }
    }

    /// Delivers the result to every follower.
    pub(crate) fn finish(self, result: T) {
        self.end(Outcome::Done(result));
    }

    /// Restarts the trusted time: until now it was queued.
    pub(crate) fn begin_at(&self, now: Duration) {
        lock(&self.slot.state).began = now;
    }

    /// The number of waiters.
    pub(crate) fn n_followers(&self) -> usize {
        lock(&self.slot.state).followers.len()
    }

    /// A handle that counts waiters, also while the leader is busy.
    pub(crate) fn counting(&self) -> impl Fn() -> usize + use<K, T> {
        let slot = Arc::clone(&self.slot);
        move || lock(&slot.state).followers.len()
    }

    fn end(&self, outcome: Outcome<T>) {
        // Out of the map before any follower is notified: a later caller starts a new flight.
        {
            let mut slots = lock(&self.flights.slots);
            // Another leader may have replaced it by now.
            let is_ours = slots
                .get(&self.key)
                .is_some_and(|slot| Arc::ptr_eq(slot, &self.slot));
            if is_ours {
                slots.remove(&self.key);
            }
            let mut state = lock(&self.slot.state);
            if matches!(state.outcome, Outcome::Open) {
                state.outcome = outcome;
            }
        }
        self.slot.changed.notify_all();
    }
}

impl<K: Ord, T: Clone> Drop for Lead<K, T> {
    fn drop(&mut self) {
        // Has no effect if there is a result.
        self.end(Outcome::Abandoned);
    }
}

impl<T: Clone> Follow<T> {
    /// Waits up to a limit for the result.
    pub(crate) fn wait(&self, limit: Duration) -> Waited<T> {
        let state = lock(&self.slot.state);
        let (state, _) = self
            .slot
            .changed
            .wait_timeout_while(state, limit, |state| {
                matches!(state.outcome, Outcome::Open) && !self.is_cancelled(state)
            })
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match &state.outcome {
            Outcome::Done(result) => Waited::Done(result.clone()),
            Outcome::Abandoned => Waited::Abandoned,
            Outcome::Open if self.is_cancelled(&state) => Waited::Cancelled,
            Outcome::Open => Waited::Timeout,
        }
    }

    /// A handle that cancels this wait.
    pub(crate) fn canceller(&self) -> impl Fn() + Send + Sync + 'static
    where
        T: Send + 'static,
    {
        let (slot, id) = (Arc::clone(&self.slot), self.id);
        move || {
            if let Some(is_cancelled) = lock(&slot.state).followers.get_mut(&id) {
                *is_cancelled = true;
            }
            slot.changed.notify_all();
        }
    }

    fn is_cancelled(&self, state: &State<T>) -> bool {
        state.followers.get(&self.id).copied().unwrap_or_default()
    }
}

impl<T> Drop for Follow<T> {
    fn drop(&mut self) {
        lock(&self.slot.state).followers.remove(&self.id);
    }
}
