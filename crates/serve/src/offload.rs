//! Moves slow reading and writing of tensors off the threads that serve connections.

use crate::error::ServeError;

/// Work on this many bytes takes about as long as handing it to another thread.
const INLINE: usize = 128 << 10;

/// Runs work on this many bytes, on another thread if there are many.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ServeError> + Send + 'static,
) -> Result<T, ServeError> {
    if bytes <= INLINE {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(ServeError::Panicked {
        doing: "reading or writing tensors",
    }))
}
