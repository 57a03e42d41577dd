//! Spans on a timeline, in the trace-event format that Perfetto and `chrome://tracing` read: complete events (`X`), times
//! in microseconds, one line per thread.
//!
//! The format: "Trace Event Format", section "JSON Object Format", of the Chromium project.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::TimingError;
use crate::event::EventInfo;
use crate::record::{Record, Records, Subject};

/// The number of this process.
const PROCESS: u32 = 1;

/// Spans of a recorder on a timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "otherData")]
    other: OtherData,
}

/// Metadata of the trace.
#[derive(Clone, Debug, Serialize)]
struct OtherData {
    producer: &'static str,
    version: &'static str,
    dropped_spans: u64,
}

/// An entry, as the format names its fields.
#[derive(Clone, Debug, Serialize)]
struct TraceEvent {
    name: String,
    #[serde(rename = "cat", skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
    #[serde(rename = "ph")]
    phase: &'static str,
    #[serde(rename = "ts")]
    begin: f64,
    #[serde(rename = "dur", skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    #[serde(rename = "pid")]
    process: u32,
    #[serde(rename = "tid")]
    thread: u32,
    #[serde(rename = "args", skip_serializing_if = "Map::is_empty")]
    arguments: Map<String, Value>,
}

impl Trace {
    pub(crate) fn of(records: &Records, events: &[EventInfo], start: u64) -> Self {
        let mut all = vec![named("process_name", 0, "kiln")];
        for (&thread, name) in records.threads() {
            let name = if thread == 0 { "device" } else { name };
            all.push(named("thread_name", thread, name));
        }
        let mut spans: Vec<&Record> = records.all().iter().collect();
        spans.sort_by_key(|record| (record.begin, u64::MAX - record.time));
        all.extend(spans.into_iter().map(|record| span(record, events, start)));
        Self {
            events: all,
            unit: "ms",
            other: OtherData {
                producer: "kiln",
                version: env!("CARGO_PKG_VERSION"),
                dropped_spans: records.dropped(),
            },
        }
    }

    /// The number of spans.
    pub fn n_spans(&self) -> usize {
        self.events
            .iter()
            .filter(|event| event.time.is_some())
            .count()
    }

    /// The number of dropped spans.
    pub fn dropped(&self) -> u64 {
        self.other.dropped_spans
    }

    /// The trace as a file that Perfetto and `chrome://tracing` open.
    ///
    /// # Errors
    /// When the JSON writer fails, which does not happen for this data.
    pub fn to_json(&self) -> Result<String, TimingError> {
        serde_json::to_string(self).map_err(|source| TimingError::Json {
            doing: "write the trace",
            source,
        })
    }
}

/// A line's name.
fn named(what: &str, thread: u32, name: &str) -> TraceEvent {
    TraceEvent {
        name: what.to_owned(),
        category: None,
        phase: "M",
        begin: 0.0,
        time: None,
        process: PROCESS,
        thread,
        arguments: [("name".to_owned(), name.into())].into_iter().collect(),
    }
}

fn span(record: &Record, events: &[EventInfo], start: u64) -> TraceEvent {
    let event = events.get(record.subject.event() as usize);
    let (name, description, category) = match event {
        Some(event) => (&*event.name, &*event.description, event.category.name()),
        None => ("", "", ""),
    };
    let mut arguments = Map::new();
    let mut say = |key: &str, value: &str| arguments.insert(key.to_owned(), value.into());
    let name = match record.subject {
        Subject::Part(_, label) => {
            say("of", name);
            label
        }
        Subject::Wait(_) => {
            say("kind", "wait");
            name
        }
        Subject::Work(_) | Subject::Device(_) => name,
    };
    say("description", description);
    if let Some(detail) = &record.detail {
        say("detail", detail);
    }
    TraceEvent {
        name: name.to_owned(),
        category: Some(category),
        phase: "X",
        begin: microseconds(record.begin.saturating_sub(start)),
        time: Some(microseconds(record.time)),
        process: PROCESS,
        thread: record.thread,
        arguments,
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
