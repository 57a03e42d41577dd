//! The body of a request: its size is limited as it arrives, and so is the time it takes.

use super::status;
use crate::error::ServeError;
use crate::gate::Permit;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use tonic::Status;

/// A body whose bytes count until its permit is dropped.
pub(super) struct CountedBody<B> {
    body: B,
    permit: Arc<Permit>,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl<B> CountedBody<B> {
    /// A body that must arrive within `limit`.
    pub(super) fn new(body: B, permit: Arc<Permit>, limit: Duration) -> Self {
        Self {
            body,
            permit,
            limit,
            deadline: Box::pin(tokio::time::sleep(limit)),
        }
    }
}

impl<B> Body for CountedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(ctx) {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                let held = self.permit.hold(length);
                Poll::Ready(Some(
                    held.map(|()| frame).map_err(|error| status::of(&error)),
                ))
            }
            Poll::Ready(Some(Err(error))) => {
                let problem = format!("expected all of it, found its end: {error}");
                let problem = problem.escape_debug().to_string();
                let error = ServeError::malformed("the request's message", problem);
                Poll::Ready(Some(Err(status::of(&error))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.deadline.as_mut().poll(ctx) {
                Poll::Ready(()) => {
                    let limit = self.limit;
                    Poll::Ready(Some(Err(status::of(&ServeError::Deadline { limit }))))
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
