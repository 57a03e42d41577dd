//! Items produced on a thread before they are consumed.
//!
//! Invariant: no thread outlives its iterator. Dropping it ends the thread after the item that it is producing.

use crate::error::TrainError;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Runs an iterator on a separate thread, up to `count` items ahead of the consumer, at least one. The iterator's order
/// is kept.
///
/// # Errors
/// E0630 when the thread cannot be started.
pub fn ahead<T, I>(items: I, count: usize) -> Result<Ahead<T>, TrainError>
where
    T: Send + 'static,
    I: IntoIterator<Item = T>,
    I::IntoIter: Send + 'static,
{
    let items = items.into_iter();
    let (sender, receiver) = sync_channel(count.max(1));
    let make = move || {
        for item in items {
            // The iterator was dropped.
            if sender.send(item).is_err() {
                break;
            }
        }
    };
    let thread = Builder::new().name("kiln-data".to_owned()).spawn(make);
    let thread = thread.map_err(|source| TrainError::Thread { source })?;
    Ok(Ahead {
        receiver: Some(receiver),
        thread: Some(thread),
    })
}

/// An iterator that runs on a separate thread; see [`ahead`]. A panic on that thread resumes in the caller of `next`.
pub struct Ahead<T> {
    /// `None` once it is at its end.
    receiver: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Ok(item) = self.receiver.as_ref()?.recv() {
            return Some(item);
        }
        self.receiver = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        None
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        // A thread that is waiting to send an item sees that its receiver is gone.
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // A panic while making items that were never taken is ignored.
            drop(thread.join());
        }
    }
}

impl<T> fmt::Debug for Ahead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.receiver {
            Some(_) => "Ahead",
            None => "Ahead(at its end)",
        })
    }
}
