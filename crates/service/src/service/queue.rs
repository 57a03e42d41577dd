//! The queue of compiles: clients are served in turn, and the number of waiting compiles is limited per client and in
//! total.

use crate::error::ServiceError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs by client.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    most: usize,
    most_per_client: usize,
}

struct State<T> {
    /// Each client's jobs, in order; clients without jobs have no entry.
    clients: BTreeMap<String, VecDeque<T>>,
    /// Clients in the order in which they are served.
    turns: VecDeque<String>,
    count: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(most: usize, most_per_client: usize) -> Self {
        Self {
            state: Mutex::new(State {
                clients: BTreeMap::new(),
                turns: VecDeque::new(),
                count: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            most,
            most_per_client,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of waiting jobs.
    pub(super) fn len(&self) -> usize {
        self.lock().count
    }

    /// Adds a client's job.
    ///
    /// # Errors
    /// E1430 when too many jobs wait; E1432 when the queue is closed.
    pub(super) fn push(&self, client: &str, job: T) -> Result<(), ServiceError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ServiceError::Stopped);
        }
        let full = |what: String, waiting, limit| {
            Err(ServiceError::QueueFull {
                what,
                waiting,
                limit,
            })
        };
        if state.count >= self.most {
            return full("of the service".to_owned(), state.count, self.most);
        }
        let own = state.clients.get(client).map_or(0, VecDeque::len);
        if own >= self.most_per_client {
            let what = format!("of client {}", client.escape_debug());
            return full(what, own, self.most_per_client);
        }
        if own == 0 {
            state.turns.push_back(client.to_owned());
        }
        state
            .clients
            .entry(client.to_owned())
            .or_default()
            .push_back(job);
        state.count += 1;
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for the next job, of the client whose turn it is; `None` when the queue is closed.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.next() {
                return Some(job);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue; returns the jobs that were waiting.
    pub(super) fn close(&self) -> Vec<T> {
        let mut state = self.lock();
        state.closed = true;
        let mut left = Vec::new();
        while let Some(job) = state.next() {
            left.push(job);
        }
        drop(state);
        self.changed.notify_all();
        left
    }
}

impl<T> State<T> {
    fn next(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let jobs = self.clients.get_mut(&client)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.clients.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.count -= usize::from(job.is_some());
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns() {
        let queue = Queue::new(10, 10);
        for job in [1, 2, 3] {
            queue.push("a", job).unwrap();
        }
        queue.push("b", 10).unwrap();
        queue.push("c", 20).unwrap();
        let order: Vec<i32> = (0..5).filter_map(|_| queue.pop()).collect();
        assert_eq!(order, [1, 10, 20, 2, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn limits_hold_for_each_client_and_for_all() {
        let queue = Queue::new(3, 2);
        queue.push("a", 1).unwrap();
        queue.push("a", 2).unwrap();
        let own = queue.push("a", 3).unwrap_err();
        assert!(own.to_string().starts_with("of client a 2 requests wait"));
        queue.push("b", 4).unwrap();
        assert_eq!(queue.push("c", 5).unwrap_err().code(), "E1430");
        assert_eq!(queue.pop(), Some(1));
        queue.push("c", 5).unwrap();
    }

    #[test]
    fn a_closed_queue_gives_back_what_waits_and_takes_nothing() {
        let queue = Queue::new(3, 3);
        queue.push("a", 1).unwrap();
        assert_eq!(queue.close(), [1]);
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.push("a", 2).unwrap_err().code(), "E1432");
    }
}
