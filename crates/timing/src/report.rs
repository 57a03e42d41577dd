//! A report as data: it adds up to the wall clock.

mod json;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account::{Balance, Tally};
use crate::category::Category;
use crate::counters::CounterValues;
use crate::event::EventInfo;
use crate::filter::Filter;
use crate::inner::Parts;
use crate::record::{Records, Subject};
use crate::verbosity::Verbosity;

/// The version of the data: a different version has other fields, or other meanings.
const VERSION: u32 = 1;

/// The times and counts of a recorder up to a moment. All times are in nanoseconds.
///
/// The categories' wall clocks, `hidden_ns`, `open_ns` and `unattributed_ns` add up to `wall_ns`, to within half a
/// nanosecond per event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this data.
    pub version: u32,
    /// The verbosity when the report was made.
    pub verbosity: Verbosity,
    /// The filter; empty is everything.
    pub filter: String,
    /// The time since the recorder was made.
    pub elapsed_ns: u64,
    /// The wall clock, which runs while some thread is inside.
    pub wall_ns: u64,
    /// Time in no event.
    pub unattributed_ns: u64,
    /// Time in spans that are still open.
    pub open_ns: u64,
    /// Time in events that the filter excludes.
    pub hidden_ns: u64,
    /// The maximum number of threads working in spans at one time.
    pub most_threads: u32,
    /// Every category, in order.
    pub categories: Vec<CategoryReport>,
    /// Every timed event, by category, then the longest first; from [`Verbosity::Verbose`] on.
    pub events: Vec<EventReport>,
    /// Spans one by one, in the order in which they began; at [`Verbosity::Debug`].
    pub records: Vec<RecordReport>,
    /// Dropped spans.
    pub dropped_records: u64,
    /// The counts.
    pub counters: CounterValues,
}

/// The times of a category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CategoryReport {
    /// The category.
    pub category: Category,
    /// Its number of timed events.
    pub events: u64,
    /// The number of spans.
    pub spans: u64,
    /// Short calls in addition, of which only some are timed.
    pub untimed: u64,
    /// Its share of the wall clock.
    pub wall_ns: u64,
    /// Time of working threads, added up.
    pub work_ns: u64,
    /// Time of waiting threads, added up.
    pub waited_ns: u64,
    /// Device time.
    pub device_ns: u64,
    /// Parts by name.
    pub parts: Vec<PartReport>,
}

/// The times of parts with one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartReport {
    /// The label.
    pub name: String,
    /// The number of parts.
    pub count: u64,
    /// Time of threads, added up.
    pub time_ns: u64,
}

/// The times of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventReport {
    /// Its category.
    pub category: Category,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The number of timed spans.
    pub count: u64,
    /// Short calls in addition, of which only some are timed.
    pub untimed: u64,
    /// Its share of the wall clock.
    pub wall_ns: u64,
    /// Time of threads working in the event itself, added up.
    pub work_ns: u64,
    /// Time of waiting threads, added up.
    pub waited_ns: u64,
    /// Time of threads in it, including everything it called, added up.
    pub total_ns: u64,
    /// The longest span, including everything it called.
    pub longest_ns: u64,
    /// Device time.
    pub device_ns: u64,
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordReport {
    /// Its event.
    pub event: String,
    /// Its label, for a part.
    pub part: Option<String>,
    /// Whether the thread worked or waited, or a device worked.
    pub kind: String,
    /// The thread.
    pub thread: String,
    /// The time since the recorder was made.
    pub begin_ns: u64,
    /// Its duration.
    pub time_ns: u64,
    /// Details.
    pub detail: Option<String>,
}

/// The recorder's data for a report.
pub(crate) struct Recorded<'a> {
    pub(crate) verbosity: Verbosity,
    pub(crate) filter: &'a Filter,
    /// Nanoseconds since the recorder was made.
    pub(crate) elapsed: u64,
    /// The clock's reading then.
    pub(crate) start: u64,
    pub(crate) balance: Balance,
    pub(crate) parts: Parts,
    pub(crate) records: Option<Records>,
    pub(crate) counters: CounterValues,
    pub(crate) events: Vec<EventInfo>,
}

impl Report {
    pub(crate) fn of(recorded: &Recorded<'_>) -> Self {
        let Recorded {
            verbosity,
            filter,
            elapsed,
            start,
            balance,
            parts,
            records,
            counters,
            events,
        } = recorded;
        let records = records.as_ref();
        let mut categories: Vec<CategoryReport> = Category::ALL
            .into_iter()
            .map(|category| CategoryReport::empty(category, parts))
            .collect();
        let mut rows = Vec::new();
        let mut hidden_ns = 0;
        for (event, tally) in events.iter().zip(&balance.tallies) {
            if tally.count == 0 && tally.device == 0 {
                continue;
            }
            if !filter.shows_event(event) {
                hidden_ns += tally.wall();
                continue;
            }
            if let Some(category) = categories.get_mut(event.category as usize) {
                category.add(tally);
            }
            rows.push(EventReport::of(event, tally));
        }
        rows.sort_by(|left, right| {
            let key = |row: &EventReport| (row.category, u64::MAX - row.wall_ns);
            key(left)
                .cmp(&key(right))
                .then_with(|| left.name.cmp(&right.name))
        });
        if *verbosity < Verbosity::Verbose {
            rows.clear();
        }
        let shown = records.map(|records| RecordReport::all(records, events, *start));
        Self {
            version: VERSION,
            verbosity: *verbosity,
            filter: filter.to_string(),
            elapsed_ns: *elapsed,
            wall_ns: balance.wall,
            unattributed_ns: balance.unattributed,
            open_ns: balance.open,
            hidden_ns,
            most_threads: balance.most_threads,
            categories,
            events: rows,
            records: shown.unwrap_or_default(),
            dropped_records: records.map_or(0, Records::dropped),
            counters: *counters,
        }
    }

    /// The wall clock.
    pub fn wall(&self) -> Duration {
        Duration::from_nanos(self.wall_ns)
    }

    /// The unattributed time.
    pub fn unattributed(&self) -> Duration {
        Duration::from_nanos(self.unattributed_ns)
    }

    /// The sum of events, hidden, open and unattributed time: the wall clock, up to rounding.
    pub fn sum(&self) -> Duration {
        let shown: u64 = self
            .categories
            .iter()
            .map(|category| category.wall_ns)
            .sum();
        Duration::from_nanos(shown + self.hidden_ns + self.open_ns + self.unattributed_ns)
    }

    /// The times of a category.
    pub fn category(&self, category: Category) -> CategoryReport {
        let known = self.categories.iter().find(|row| row.category == category);
        known
            .cloned()
            .unwrap_or_else(|| CategoryReport::empty(category, &Parts::new()))
    }

    /// The times of an event, if it was timed and is shown.
    pub fn event(&self, name: &str) -> Option<&EventReport> {
        self.events.iter().find(|event| event.name == name)
    }
}

impl CategoryReport {
    fn empty(category: Category, parts: &Parts) -> Self {
        let parts = parts.iter().filter(|((of, _), _)| *of == category);
        Self {
            category,
            events: 0,
            spans: 0,
            untimed: 0,
            wall_ns: 0,
            work_ns: 0,
            waited_ns: 0,
            device_ns: 0,
            parts: parts
                .map(|(&(_, label), &(count, time_ns))| PartReport {
                    name: label.to_owned(),
                    count,
                    time_ns,
                })
                .collect(),
        }
    }

    fn add(&mut self, tally: &Tally) {
        self.events += 1;
        self.spans += tally.count;
        self.untimed += tally.untimed;
        self.wall_ns += tally.wall();
        self.work_ns += tally.work;
        self.waited_ns += tally.waited;
        self.device_ns += tally.device;
    }
}

impl EventReport {
    fn of(event: &EventInfo, tally: &Tally) -> Self {
        Self {
            category: event.category,
            name: event.name.to_string(),
            description: event.description.to_string(),
            count: tally.count,
            untimed: tally.untimed,
            wall_ns: tally.wall(),
            work_ns: tally.work,
            waited_ns: tally.waited,
            total_ns: tally.total,
            longest_ns: tally.longest,
            device_ns: tally.device,
        }
    }
}

impl RecordReport {
    fn all(records: &Records, events: &[EventInfo], start: u64) -> Vec<Self> {
        let mut all: Vec<Self> = records
            .all()
            .iter()
            .map(|record| {
                let subject = record.subject;
                let event = events.get(subject.event() as usize);
                let (kind, part) = match subject {
                    Subject::Work(_) => ("work", None),
                    Subject::Wait(_) => ("wait", None),
                    Subject::Part(_, label) => ("part", Some(label.to_owned())),
                    Subject::Device(_) => ("device", None),
                };
                let thread = records.threads().get(&record.thread);
                Self {
                    event: event
                        .map(|event| event.name.to_string())
                        .unwrap_or_default(),
                    part,
                    kind: kind.to_owned(),
                    thread: thread
                        .cloned()
                        .unwrap_or_else(|| format!("thread {}", record.thread)),
                    begin_ns: record.begin.saturating_sub(start),
                    time_ns: record.time,
                    detail: record.detail.as_deref().map(str::to_owned),
                }
            })
            .collect();
        // The enclosing span begins first and takes longer.
        all.sort_by_key(|record| (record.begin_ns, u64::MAX - record.time_ns));
        all
    }
}

#[cfg(test)]
mod tests;
