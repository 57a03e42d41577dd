//! One compile and the requests that wait for it. When the last of them is dropped, the compile is cancelled.

use super::Answer;
use crate::compile::CancelToken;
use crate::error::ServiceError;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// A compile that runs or waits to run.
pub(super) struct Flight {
    answer: watch::Sender<Option<Answer>>,
    token: CancelToken,
    /// The number of waiting callers; `None` once the last has left, after which no caller can join.
    waiting: Mutex<Option<usize>>,
}

/// A caller's registration as one that waits for a flight.
pub(super) struct Waiting {
    flight: Arc<Flight>,
    answer: watch::Receiver<Option<Answer>>,
    /// Whether leaving decrements the number of waiting callers.
    leaves: bool,
}

impl Flight {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            answer: watch::Sender::new(None),
            token: CancelToken::default(),
            waiting: Mutex::new(Some(0)),
        })
    }

    /// Registers a caller; `None` if the flight is already cancelled.
    pub(super) fn join(self: &Arc<Self>) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting.as_mut()? += 1;
        Some(Waiting {
            flight: Arc::clone(self),
            answer: self.answer.subscribe(),
            leaves: true,
        })
    }

    /// Cancelled when no caller waits any longer.
    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Delivers the result to all waiting callers.
    pub(super) fn land(&self, answer: Answer) {
        self.answer.send_replace(Some(answer));
    }
}

impl Waiting {
    /// Waits for the result.
    pub(super) async fn answer(&mut self) -> Answer {
        match self.answer.wait_for(Option::is_some).await {
            Ok(answer) => match &*answer {
                Some(answer) => answer.clone(),
                None => Err(Arc::new(ServiceError::Stopped)),
            },
            Err(_) => Err(Arc::new(ServiceError::Stopped)),
        }
    }

    /// Leaves without ending the compile, even if no other caller waits for it.
    pub(super) fn leave_running(mut self) {
        self.leaves = false;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.leaves {
            return;
        }
        let mut waiting = self
            .flight
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.as_mut() {
            *count -= 1;
            if *count == 0 && self.flight.answer.borrow().is_none() {
                *waiting = None;
                self.flight.token.cancel();
            }
        }
    }
}
