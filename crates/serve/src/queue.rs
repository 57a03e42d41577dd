//! The queue of one model: requests wait here for a thread, and for other requests to be batched with.
//!
//! *Invariants:* the queue is never longer than its limit; no lock is held while a model is called; a request whose
//! client has disconnected, or whose deadline has passed, is never computed.

mod pick;

pub(crate) use pick::Joining;

use crate::batching::Group;
use crate::error::ServeError;
use kiln::{Cancellation, Tensor};
use pick::Pick;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Span;

/// The result of a request: the model's outputs, in the model's order.
pub(crate) type Reply = Result<Vec<Tensor>, ServeError>;

/// A request that waits for a thread.
pub(crate) struct Job {
    /// The inputs, in the model's order.
    pub(crate) inputs: Vec<Tensor>,
    /// Its group, and its size along the batch; `None` if it runs alone.
    pub(crate) group: Option<(Group, usize)>,
    /// The span of the request.
    pub(crate) request: Span,
    /// The span of its wait, which ends when it is dropped.
    pub(crate) waiting: Span,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    /// Cancelled when the client disconnects.
    pub(crate) cancellation: Cancellation,
    pub(crate) reply: oneshot::Sender<Reply>,
}

impl Job {
    /// Whether the result is no longer wanted.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.cancellation.is_cancelled() || self.deadline <= now
    }
}

/// Requests in the order of their arrival.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    limit: usize,
    joining: Joining,
}

struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    pub(crate) fn new(limit: usize, joining: Joining) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
            limit,
            joining,
        }
    }

    // Each change is complete before the lock is released, so a poisoned lock holds valid data.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Adds a request.
    ///
    /// # Errors
    /// E1505 when too many requests wait; E1508 when the queue is closed.
    pub(crate) fn push(&self, model: &str, job: Job) -> Result<(), ServeError> {
        let mut state = self.lock();
        if state.is_closed {
            let what = format!("model {model}");
            return Err(ServeError::Draining { what });
        }
        if state.jobs.len() >= self.limit {
            let now = Instant::now();
            state.jobs.retain(|job| !job.is_over(now));
        }
        let waiting = state.jobs.len();
        if waiting >= self.limit {
            return Err(ServeError::QueueFull {
                name: model.to_owned(),
                waiting,
                limit: self.limit,
            });
        }
        state.jobs.push_back(job);
        drop(state);
        // Wakes all threads: a thread that waits for a batch to fill checks again, too.
        self.changed.notify_all();
        Ok(())
    }

    /// The requests to compute next, together; waits until there are some. `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let joining = match state.is_closed {
                // No further request can join.
                true => self.joining.without_delay(),
                false => self.joining,
            };
            match pick::pick(&mut state.jobs, joining, now) {
                Pick::Run(jobs) => return Some(jobs),
                Pick::WaitUntil(time) => {
                    let wait = time.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Pick::Empty if state.is_closed => return None,
                Pick::Empty => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Stops accepting requests; those that wait are still computed.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
