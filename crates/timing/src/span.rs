//! Open timings: spans, parts of spans, and spans that a device ends.

use std::marker::PhantomData;
use std::time::Duration;

use crate::clock::nanoseconds;
use crate::inner::{Closed, Inner};
use crate::record::{Record, Subject};
use crate::sampler::Sampler;
use crate::timing::Timing;

/// A timing on this thread, until this is dropped; empty if timing is off.
///
/// Spans of a thread nest: dropping one also ends those that were opened after it and leaked.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct Span<'a> {
    open: Option<(&'a Timing, u64)>,
    /// The sampler that selected this call, and the call's number.
    sampled: Option<(&'a Sampler, u64)>,
    /// A span stays on its thread.
    on_thread: PhantomData<*const ()>,
}

impl<'a> Span<'a> {
    #[inline]
    pub(crate) fn new(open: Option<(&'a Timing, u64)>) -> Self {
        Self {
            open,
            sampled: None,
            on_thread: PhantomData,
        }
    }

    /// One of the calls that a sampler chose.
    pub(crate) fn sampled(mut self, sampler: &'a Sampler, number: u64) -> Self {
        self.sampled = Some((sampler, number));
        self
    }

    /// Whether a span is timed.
    pub fn is_timed(&self) -> bool {
        self.open.is_some()
    }

    /// Ends it, and returns its time; `None` if nothing was timed.
    pub fn finish(mut self) -> Option<Duration> {
        self.close().map(|(_, closed)| closed.time)
    }

    /// Ends the host's part of it; the device's time is reported later, on any thread, after waiting for the device.
    #[must_use = "the device's time is reported to the returned value"]
    pub fn submit(mut self) -> Pending {
        let closed = self.close();
        Pending(closed.map(|(timing, closed)| (timing.clone(), closed.event, closed.begin)))
    }

    fn close(&mut self) -> Option<(&'a Timing, Closed)> {
        let (timing, serial) = self.open.take()?;
        let closed = timing.inner().close(serial)?;
        if let Some((sampler, number)) = self.sampled {
            sampler.reset_after_change(timing.inner().changes(), number);
            let untimed = sampler.note(number, closed.time);
            if untimed > 0 {
                timing.inner().account().add_untimed(closed.event, untimed);
            }
        }
        Some((timing, closed))
    }

    /// Makes it a span of another event, retroactively from its beginning.
    pub(crate) fn become_event(&self, event: u32) {
        if let Some((timing, serial)) = self.open {
            timing.inner().rename(serial, event);
        }
    }
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close();
        }
    }
}

/// Work submitted to a device but not finished. If this is dropped without a time, none is recorded.
#[derive(Debug)]
pub struct Pending(Option<(Timing, u32, u64)>);

impl Pending {
    /// Reports how long the device took. It is not part of the wall clock's shares, since the host continued meanwhile.
    pub fn finish(self, device: Duration) {
        if let Some((timing, event, begin)) = self.0 {
            let inner = timing.inner();
            inner.account().add_device(event, nanoseconds(device));
            inner.record(Record {
                subject: Subject::Device(event),
                thread: 0,
                begin,
                time: nanoseconds(device),
                detail: None,
            });
        }
    }
}

/// A part of the innermost span, by a label, until this is dropped. The span's time is unaffected.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct Part<'a> {
    inner: Option<&'a Inner>,
    event: u32,
    label: &'static str,
    begin: u64,
    on_thread: PhantomData<*const ()>,
}

impl<'a> Part<'a> {
    pub(crate) fn new(
        inner: Option<&'a Inner>,
        event: u32,
        label: &'static str,
        begin: u64,
    ) -> Self {
        Self {
            inner,
            event,
            label,
            begin,
            on_thread: PhantomData,
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner {
            inner.close_part(self.event, self.label, self.begin);
        }
    }
}
