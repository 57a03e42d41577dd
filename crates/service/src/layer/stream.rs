//! A layer's stream: a thread that executes its calls in the order in which they were submitted.

use crate::error::ServiceError;
use crate::service::message_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Work that sends its result itself.
type Work = Box<dyn FnOnce() + Send>;

/// The stream; when it is dropped, its thread ends after the submitted work.
pub(super) struct Stream {
    work: mpsc::Sender<Work>,
}

impl Stream {
    /// Starts a stream.
    ///
    /// # Errors
    /// E1426 when the system cannot start a thread.
    pub(super) fn start(layer: &str) -> Result<Self, ServiceError> {
        let (work, waiting) = mpsc::channel::<Work>();
        let run = move || {
            for work in waiting {
                work();
            }
        };
        let name: String = format!("layer {layer}")
            .chars()
            .filter(|&c| c != '\0')
            .collect();
        let thread = std::thread::Builder::new().name(name).spawn(run);
        thread.map_err(ServiceError::store("start a thread", layer))?;
        Ok(Self { work })
    }

    /// Runs `work` on the stream, after the work that was submitted before.
    ///
    /// # Errors
    /// E1436 when it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let result = result.map_err(|panic| ServiceError::Panicked {
                doing: "a layer",
                message: message_of(&*panic),
            });
            // The caller may no longer be waiting.
            let _ = answer.send(result);
        };
        self.work
            .send(Box::new(work))
            .map_err(|_| ServiceError::Stopped)?;
        answered.await.unwrap_or(Err(ServiceError::Stopped))
    }
}
