//! A connection with time-outs for its first bytes and for a client that does not read its responses: HTTP itself has
//! no such limits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that fails if it does not begin in time, or if the client accepts none of the pending data for that long.
pub(super) struct TimedStream<S> {
    stream: S,
    limit: Duration,
    /// The number of opening bytes still expected, and their deadline.
    opening: Option<(usize, Pin<Box<Sleep>>)>,
    /// The deadline for the client to accept data, while it accepts none.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    /// A stream of which `opening` bytes must arrive within `limit`.
    pub(super) fn new(stream: S, opening: usize, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            opening: (opening > 0).then(|| (opening, Box::pin(tokio::time::sleep(limit)))),
            stalled: None,
        }
    }

    /// The result of a write: an error if it has waited for the client for too long.
    fn written<T>(
        &mut self,
        ctx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let deadline = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match deadline.as_mut().poll(ctx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(ctx, buffer);
        let Some((left, deadline)) = &mut self.opening else {
            return read;
        };
        if read.is_ready() {
            *left = left.saturating_sub(buffer.filled().len() - before);
            if *left == 0 {
                self.opening = None;
            }
            return read;
        }
        match deadline.as_mut().poll(ctx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        self.written(ctx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(ctx);
        self.written(ctx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(ctx);
        self.written(ctx, ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(ctx, pieces);
        self.written(ctx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
