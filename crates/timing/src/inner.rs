//! The shared state of a recorder's clones.
//!
//! Invariant: no lock is held while code outside this crate runs, so a clock or a compile may use the recorder.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use kiln_fork_lock::ForkLock;

use crate::account::{Account, Kind};
use crate::category::Category;
use crate::clock::{Clock, nanoseconds};
use crate::counters::Counters;
use crate::event::{EventId, EventInfo};
use crate::filter::Filter;
use crate::lane::Lane;
use crate::options::TimingOptions;
use crate::record::{Record, Records, Subject};
use crate::registry::Registry;
use crate::report::{Recorded, Report};
use crate::specialize::Specializations;
use crate::verbosity::Verbosity;

static NEXT_RECORDER: AtomicU32 = AtomicU32::new(1);

/// The shared state.
pub(crate) struct Inner {
    pub(crate) number: u32,
    verbosity: AtomicU8,
    /// How often the verbosity was changed.
    changes: AtomicU64,
    pub(crate) clock: Arc<dyn Clock>,
    /// The clock's reading when the recorder was made.
    pub(crate) start: u64,
    pub(crate) filter: Filter,
    pub(crate) record_limit: usize,
    pub(crate) registry: Registry,
    account: ForkLock<Account>,
    records: ForkLock<Records>,
    parts: ForkLock<Parts>,
    pub(crate) counters: Counters,
    pub(crate) specializations: Specializations,
}

/// A span that ended.
pub(crate) struct Closed {
    pub(crate) event: u32,
    /// Nanoseconds of the clock.
    pub(crate) begin: u64,
    pub(crate) time: Duration,
}

/// Parts of a category's spans by their labels: the number, and their nanoseconds.
pub(crate) type Parts = BTreeMap<(Category, &'static str), (u64, u64)>;

impl Inner {
    /// A recorder that reads a clock.
    pub(crate) fn new(clock: Arc<dyn Clock>, options: TimingOptions) -> Self {
        let record_limit = options.record_limit();
        Self {
            number: NEXT_RECORDER.fetch_add(1, Ordering::Relaxed),
            verbosity: AtomicU8::new(options.verbosity as u8),
            changes: AtomicU64::new(0),
            start: nanoseconds(clock.now()),
            clock,
            filter: options.filter,
            record_limit,
            registry: Registry::new(),
            account: ForkLock::default(),
            records: ForkLock::new(move || Records::new(record_limit)),
            parts: ForkLock::default(),
            counters: Counters::default(),
            specializations: Specializations::default(),
        }
    }

    /// The verbosity, as a number.
    #[inline]
    pub(crate) fn level(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_level(&self, level: u8) {
        if self.verbosity.swap(level, Ordering::Relaxed) != level {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often verbosity was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The times and counts so far, subject to verbosity and filter.
    pub(crate) fn report(&self) -> Report {
        let now = self.now();
        let verbosity = Verbosity::of_level(self.level());
        let balance = self.account().balance(now);
        let records = match verbosity {
            Verbosity::Debug => Some(self.records()),
            _ => None,
        };
        Report::of(&Recorded {
            verbosity,
            filter: &self.filter,
            elapsed: now.saturating_sub(self.start),
            start: self.start,
            balance,
            parts: self.parts.lock().clone(),
            records,
            counters: self.counters.values(),
            // Read last, so that every timed event is among them.
            events: self.registry.events(),
        })
    }

    /// The spans that were kept.
    pub(crate) fn records(&self) -> Records {
        self.records.lock().clone()
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock()
    }

    pub(crate) fn event(&self, index: u32) -> EventId {
        EventId {
            recorder: self.number,
            index,
        }
    }

    /// Ends a span of this thread, and nested ones that were leaked.
    pub(crate) fn close(&self, serial: u64) -> Option<Closed> {
        let now = self.now();
        Lane::with(|lane| {
            let mut closed = None;
            while let Some(open) = lane.pop(self.number, serial) {
                let frame = open.frame;
                let is_inner = lane.is_in(self.number, frame.event);
                let parent = lane.innermost(self.number).map(|open| &mut open.frame);
                let time = self.account().end(now, frame, parent, is_inner);
                let subject = match frame.kind {
                    Kind::Work => Some(Subject::Work(frame.event)),
                    Kind::Wait => Some(Subject::Wait(frame.event)),
                    Kind::Scope => None,
                };
                if let Some(subject) = subject {
                    self.record(Record {
                        subject,
                        thread: lane.thread,
                        begin: frame.begin,
                        time,
                        detail: open.detail,
                    });
                }
                if open.serial == serial {
                    closed = Some(Closed {
                        event: frame.event,
                        begin: frame.begin,
                        time: Duration::from_nanos(time),
                    });
                }
            }
            closed
        })
        .flatten()
    }

    /// Changes the event of an open span.
    pub(crate) fn rename(&self, serial: u64, event: u32) {
        Lane::with(|lane| {
            if let Some(open) = lane.find(self.number, serial) {
                open.frame.event = event;
            }
        });
    }

    /// Ends a part.
    pub(crate) fn close_part(&self, event: u32, label: &'static str, begin: u64) {
        let time = self.now().saturating_sub(begin);
        let Some(category) = self.registry.category(event) else {
            return;
        };
        {
            let mut parts = self.parts.lock();
            let (count, sum) = parts.entry((category, label)).or_default();
            *count += 1;
            *sum = sum.saturating_add(time);
        }
        self.record(Record {
            subject: Subject::Part(event, label),
            thread: Lane::with(|lane| lane.thread).unwrap_or_default(),
            begin,
            time,
            detail: None,
        });
    }

    /// Keeps a record if records are kept, and the filter shows it.
    pub(crate) fn record(&self, record: Record) {
        if self.record_limit == 0 {
            return;
        }
        let event = record.subject.event();
        let is_shown = |event: &EventInfo| self.filter.shows_event(event);
        if self.filter.is_everything() || self.registry.with(event, is_shown) == Some(true) {
            let name = || std::thread::current().name().map(str::to_owned);
            self.records.lock().push(record, name);
        }
    }

    /// Nanoseconds of the clock.
    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.clock.now())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
