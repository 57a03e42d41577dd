//! The recorder. When off, a span costs one atomic load; when on, two clock readings and two short locks.

use std::fmt;
use std::sync::Arc;

use crate::account::Kind;
use crate::category::Category;
use crate::clock::{Clock, SystemClock};
use crate::counters::Counters;
use crate::error::TimingError;
use crate::event::EventId;
use crate::inner::Inner;
use crate::lane::Lane;
use crate::options::TimingOptions;
use crate::registry::{Registry, name_of_function};
use crate::report::Report;
use crate::sampler::Sampler;
use crate::span::{Part, Span};
use crate::trace::Trace;
use crate::verbosity::Verbosity;

/// A recorder of times and counts. Clones share it.
///
/// ```
/// use kiln_timing::{Category, Timing};
///
/// let timing = Timing::default();
/// let event = timing.register(Category::Runtime, "run_mlp", "Calls of mlp")?;
/// let sum = {
///     let _span = timing.begin(event);
///     (0..1000).sum::<u64>()
/// };
/// assert_eq!(sum, 499_500);
/// assert_eq!(timing.report().category(Category::Runtime).spans, 1);
/// assert_eq!(timing.event("run_mpl").unwrap_err().code(), "E0751");
/// # Ok::<(), kiln_timing::TimingError>(())
/// ```
#[derive(Clone)]
pub struct Timing(Arc<Inner>);

impl Timing {
    /// A recorder that reads a clock.
    pub fn new(clock: Arc<dyn Clock>, options: TimingOptions) -> Self {
        Self(Arc::new(Inner::new(clock, options)))
    }

    /// A recorder that times nothing until it is enabled.
    pub fn off() -> Self {
        let options = TimingOptions::new().verbosity(Verbosity::Off);
        Self::new(Arc::new(SystemClock::new()), options)
    }

    /// The verbosity.
    pub fn verbosity(&self) -> Verbosity {
        Verbosity::of_level(self.0.level())
    }

    /// Changes the verbosity from now on. Open spans are timed to their end.
    pub fn set_verbosity(&self, verbosity: Verbosity) {
        self.0.set_level(verbosity as u8);
    }

    /// Whether the verbosity is at least this level.
    #[inline]
    pub fn is_at(&self, verbosity: Verbosity) -> bool {
        self.0.level() >= verbosity as u8
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The counters, which count at every verbosity.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Registers an event; registering the same one again returns it.
    ///
    /// # Errors
    /// When the name is empty, longer than 256 bytes, contains control characters, or is taken by another event; when there
    /// are 65,536 events.
    pub fn register(
        &self,
        category: Category,
        name: &str,
        description: &str,
    ) -> Result<EventId, TimingError> {
        let index = self.0.registry.register(category, name, description)?;
        Ok(self.0.event(index))
    }

    /// The same for an event whose name comes from an external source: invalid characters are replaced, and if it
    /// cannot be registered at all (too many events, a name that is taken), the category's own event is used.
    ///
    /// ```
    /// use kiln_timing::{Category, Timing};
    ///
    /// let timing = Timing::default();
    /// let run = timing.named(Category::Runtime, "run_", "my graph", "Calls of ");
    /// assert_eq!(timing.event("run_my graph")?, run);
    /// # Ok::<(), kiln_timing::TimingError>(())
    /// ```
    pub fn named(&self, category: Category, prefix: &str, name: &str, what: &str) -> EventId {
        let description = name_of_function(what, name);
        self.named_exactly(category, &name_of_function(prefix, name), &description)
    }

    /// The same for a name chosen in this crate: registered, or the category's own event if that is not possible.
    pub fn named_exactly(&self, category: Category, name: &str, description: &str) -> EventId {
        self.register(category, name, description)
            .unwrap_or_else(|_| self.category_event(category))
    }

    /// The event with that name.
    ///
    /// # Errors
    /// When there is none; lists the existing ones.
    pub fn event(&self, name: &str) -> Result<EventId, TimingError> {
        Ok(self.0.event(self.0.registry.find(name)?))
    }

    /// A category's own event, for work without another.
    pub fn category_event(&self, category: Category) -> EventId {
        self.0.event(Registry::of_category(category))
    }

    /// Times an event on this thread until the returned span is dropped. An event of another recorder is not timed.
    #[inline]
    pub fn begin(&self, event: EventId) -> Span<'_> {
        self.begin_at(Verbosity::Default, event)
    }

    /// The same, if the verbosity is at least this level.
    #[inline]
    pub fn begin_at(&self, verbosity: Verbosity, event: EventId) -> Span<'_> {
        if self.is_at(verbosity.max(Verbosity::Default)) {
            self.open(event, Kind::Work)
        } else {
            Span::new(None)
        }
    }

    /// The same for one of many calls, counted from 0, of which only some are timed if they are short and the verbosity is
    /// at most [`Verbosity::Default`]. The wall clock does not run for the others.
    #[inline]
    pub fn begin_sampled<'a>(
        &'a self,
        event: EventId,
        sampler: &'a Sampler,
        number: u64,
    ) -> Span<'a> {
        if self.is_at(Verbosity::Verbose) {
            return self.open(event, Kind::Work);
        }
        if !self.is_at(Verbosity::Default) {
            return Span::new(None);
        }
        if sampler.is_due(number) {
            self.open(event, Kind::Work).sampled(sampler, number)
        } else {
            Span::new(None)
        }
    }

    /// Times a wait of this thread until the returned span is dropped. Time in which another thread works counts as work.
    #[inline]
    pub fn wait(&self, event: EventId) -> Span<'_> {
        if self.is_at(Verbosity::Default) {
            self.open(event, Kind::Wait)
        } else {
            Span::new(None)
        }
    }

    /// Runs the wall clock until the returned scope is dropped: time outside of spans meanwhile is unattributed. Has no
    /// effect inside a span.
    #[inline]
    pub fn enter(&self) -> Span<'_> {
        let is_inside = || Lane::with(|lane| lane.innermost(self.0.number).is_some());
        if self.is_at(Verbosity::Default) && is_inside() == Some(false) {
            self.open(self.category_event(Category::Build), Kind::Scope)
        } else {
            Span::new(None)
        }
    }

    /// Times a part of this thread's innermost span, which keeps the time. Reports show parts by their labels under the
    /// span's category.
    pub fn part(&self, label: &'static str) -> Part<'_> {
        let innermost = |lane: &mut Lane| {
            let frame = lane.innermost(self.0.number)?.frame;
            (frame.kind != Kind::Scope).then_some(frame.event)
        };
        if self.is_at(Verbosity::Default)
            && let Some(event) = Lane::with(innermost).flatten()
        {
            return Part::new(Some(&self.0), event, label, self.0.now());
        }
        Part::new(None, 0, label, 0)
    }

    /// Adds details to this thread's innermost span, if spans are kept one by one.
    pub fn describe(&self, detail: impl FnOnce() -> String) {
        if self.is_at(Verbosity::Default) && self.0.record_limit > 0 {
            let detail: Arc<str> = detail().into();
            Lane::with(|lane| {
                if let Some(open) = lane.innermost(self.0.number) {
                    open.detail = Some(detail);
                }
            });
        }
    }

    /// The times and counts so far, subject to verbosity and filter.
    pub fn report(&self) -> Report {
        self.0.report()
    }

    /// The kept spans, on a timeline.
    pub fn trace(&self) -> Trace {
        Trace::of(&self.0.records(), &self.0.registry.events(), self.0.start)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Opens a span on this thread.
    fn open(&self, event: EventId, kind: Kind) -> Span<'_> {
        let inner = &*self.0;
        if event.recorder != inner.number {
            return Span::new(None);
        }
        let now = inner.now();
        let serial = Lane::with(|lane| {
            let parent = lane.innermost(inner.number).map(|open| &mut open.frame);
            let frame = inner.account().begin(now, parent, event.index, kind);
            lane.push(inner.number, frame, None)
        });
        Span::new(serial.map(|serial| (self, serial)))
    }
}

impl Default for Timing {
    /// A recorder of the default verbosity that reads the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::new()), TimingOptions::new())
    }
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing")
            .field("verbosity", &self.verbosity())
            .field("filter", &self.0.filter.to_string())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
