//! The thread that talks to the store: callers hand it futures and wait for a bounded time.
//!
//! Callers never poll a future themselves, so they may be on any thread, including one of an asynchronous runtime.

use std::future::Future;
use std::process;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::RemoteError;

/// How much later than a future's own limit its caller gives up: the future can report more detail than the caller.
const GRACE: Duration = Duration::from_millis(50);

/// How long pending requests are waited for when the thread ends.
const LAST: Duration = Duration::from_millis(10);

pub(crate) struct Worker {
    /// Present until dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    /// A forked child has this value and not the thread.
    process: u32,
}

/// Why a future returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoResult {
    /// It took too long.
    TimedOut,
    /// This is a forked child, or the thread has ended.
    NoThread,
}

impl Worker {
    pub(crate) fn start() -> Result<Self, RemoteError> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name("kiln-store");
        let runtime = builder.enable_all().build();
        let runtime = runtime.map_err(|error| RemoteError::Thread {
            message: error.to_string(),
        })?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            process: process::id(),
        })
    }

    /// Whether this process has the thread.
    pub(crate) fn is_here(&self) -> bool {
        process::id() == self.process
    }

    /// The result of a future that takes about `limit`.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoResult> {
        if !self.is_here() {
            return Err(NoResult::NoThread);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.handle.spawn(async move {
            let _ = sender.send(future.await);
        });
        let result = receiver.recv_timeout(limit.saturating_add(GRACE));
        result.map_err(|error| {
            task.abort();
            match error {
                mpsc::RecvTimeoutError::Timeout => NoResult::TimedOut,
                mpsc::RecvTimeoutError::Disconnected => NoResult::NoThread,
            }
        })
    }

    /// Starts a future without waiting for it.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if self.is_here() {
            self.handle.spawn(future);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        match self.is_here() {
            true => runtime.shutdown_timeout(LAST),
            // There is no thread to end.
            false => std::mem::forget(runtime),
        }
    }
}
