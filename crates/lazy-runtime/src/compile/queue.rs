//! The order of jobs: first those that a call waits for, in order; then the others, the most valuable first, a few at a
//! time.
//!
//! Nothing runs here, and the lock is held only briefly. A model checker runs this file in every interleaving.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::sync::{Condvar, Mutex, lock, wait, wait_while};

/// Jobs by their ids.
#[derive(Debug)]
pub(crate) struct JobQueue<K, J> {
    state: Mutex<State<K, J>>,
    changed: Condvar,
    /// How many jobs without waiters run at one time.
    background_limit: usize,
}

/// The priority of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A call waits for it.
    Urgent,
    /// No call waits; jobs of higher worth run earlier.
    Background {
        /// The time it is expected to save.
        worth: u64,
    },
}

impl Urgency {
    /// The priority of a job that saves this much more.
    pub(crate) fn worth_more(self, more: u64) -> Self {
        match self {
            Self::Urgent => Self::Urgent,
            Self::Background { worth } => Self::Background {
                worth: worth.saturating_add(more),
            },
        }
    }
}

/// A job handed out. Its thread reports when it is [done](JobQueue::done).
#[derive(Debug)]
pub(crate) struct Taken<J> {
    pub(crate) job: J,
    is_background: bool,
}

#[derive(Debug)]
struct State<K, J> {
    urgent: VecDeque<(K, J)>,
    /// By worth, the highest last; those of equal worth, the newest first.
    background: BTreeMap<(u64, u64), (K, J)>,
    next: u64,
    running: usize,
    running_background: usize,
    is_stopped: bool,
}

impl<K: PartialEq, J> JobQueue<K, J> {
    pub(crate) fn new(background_limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                urgent: VecDeque::new(),
                background: BTreeMap::new(),
                next: u64::MAX,
                running: 0,
                running_background: 0,
                is_stopped: false,
            }),
            changed: Condvar::new(),
            background_limit,
        }
    }

    /// Adds a job; returns it if the queue was stopped.
    pub(crate) fn push(&self, id: K, urgency: Urgency, job: J) -> Result<(), J> {
        let mut state = lock(&self.state);
        if state.is_stopped {
            return Err(job);
        }
        match urgency {
            Urgency::Urgent => state.urgent.push_back((id, job)),
            Urgency::Background { worth } => {
                let number = state.next;
                state.next -= 1;
                state.background.insert((worth, number), (id, job));
            }
        }
        drop(state);
        // Notifies all: a single notification might wake a thread that waits for the queue to become idle.
        self.changed.notify_all();
        Ok(())
    }

    /// A call now waits for a job that was queued for later.
    pub(crate) fn hurry(&self, id: &K) {
        let mut state = lock(&self.state);
        let found = state
            .background
            .iter()
            .find(|(_, (queued, _))| queued == id)
            .map(|(&place, _)| place);
        let Some(entry) = found.and_then(|place| state.background.remove(&place)) else {
            return;
        };
        state.urgent.push_back(entry);
        drop(state);
        self.changed.notify_all();
    }

    /// A job that was queued for later saves this much more than was thought.
    pub(crate) fn add_worth(&self, id: &K, more: u64) {
        let mut state = lock(&self.state);
        let mut queued = state.background.iter();
        let place = queued.find(|(_, (queued, _))| queued == id);
        let place = place.map(|(&place, _)| place);
        if let Some((worth, number)) = place
            && let Some(entry) = state.background.remove(&(worth, number))
        {
            let place = (worth.saturating_add(more), number);
            state.background.insert(place, entry);
        }
    }

    /// Removes a waiting job that `is_wanted` denies.
    pub(crate) fn forget(&self, id: &K, is_wanted: impl Fn(&J) -> bool) -> Option<J> {
        let mut state = lock(&self.state);
        let is_it = |(queued, job): &(K, J)| queued == id && !is_wanted(job);
        let forgotten = match state.urgent.iter().position(is_it) {
            Some(position) => state.urgent.remove(position),
            None => {
                let found = state.background.iter().find(|(_, entry)| is_it(entry));
                let place = found.map(|(&place, _)| place);
                place.and_then(|place| state.background.remove(&place))
            }
        };
        drop(state);
        if forgotten.is_some() {
            // Notifies threads that wait for the queue to become idle.
            self.changed.notify_all();
        }
        forgotten.map(|(_, job)| job)
    }

    /// The next job, once there is one; `None` when the queue was stopped.
    pub(crate) fn take(&self) -> Option<Taken<J>> {
        let mut state = lock(&self.state);
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some((_, job)) = state.urgent.pop_front() {
                state.running += 1;
                return Some(Taken {
                    job,
                    is_background: false,
                });
            }
            if state.running_background < self.background_limit
                && let Some((_, (_, job))) = state.background.pop_last()
            {
                state.running += 1;
                state.running_background += 1;
                return Some(Taken {
                    job,
                    is_background: true,
                });
            }
            state = wait(&self.changed, state);
        }
    }

    /// Marks a taken job as finished.
    pub(crate) fn done(&self, is_background: bool) {
        let mut state = lock(&self.state);
        state.running -= 1;
        state.running_background -= usize::from(is_background);
        drop(state);
        // Notifies threads that wait for a slot for another background job, and those that wait for the queue to become
        // idle.
        self.changed.notify_all();
    }

    /// Stops the queue: waiting jobs are returned, running ones finish.
    pub(crate) fn stop(&self) -> Vec<J> {
        let mut state = lock(&self.state);
        state.is_stopped = true;
        let urgent = std::mem::take(&mut state.urgent);
        let background = std::mem::take(&mut state.background);
        drop(state);
        self.changed.notify_all();
        let jobs = urgent.into_iter().chain(background.into_values());
        jobs.map(|(_, job)| job).collect()
    }

    /// Waits up to a limit until no job waits or runs; returns whether that is so.
    pub(crate) fn wait_idle(&self, limit: Duration) -> bool {
        let state = lock(&self.state);
        let is_busy = |state: &mut State<K, J>| {
            state.running > 0 || !state.urgent.is_empty() || !state.background.is_empty()
        };
        !is_busy(&mut wait_while(&self.changed, state, limit, is_busy))
    }

    /// The number of waiting and of running jobs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.urgent.len() + state.background.len(), state.running)
    }
}

impl<J> Taken<J> {
    /// The job, and the argument of [`JobQueue::done`].
    pub(crate) fn into_parts(self) -> (J, bool) {
        (self.job, self.is_background)
    }
}
