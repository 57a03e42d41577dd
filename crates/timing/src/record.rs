//! Individual spans, up to a limit: the contents of a trace.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of threads whose names are kept.
const MAX_NAMES: usize = 1024;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A span in which a thread worked.
    Work(u32),
    /// A span in which it waited.
    Wait(u32),
    /// A part of a span, by its label.
    Part(u32, &'static str),
    /// Device work, from the moment it was submitted.
    Device(u32),
}

impl Subject {
    /// Its event.
    pub(crate) fn event(self) -> u32 {
        match self {
            Self::Work(event) | Self::Wait(event) | Self::Part(event, _) | Self::Device(event) => {
                event
            }
        }
    }
}

/// One span that ended.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) subject: Subject,
    pub(crate) thread: u32,
    /// Nanoseconds of the clock.
    pub(crate) begin: u64,
    /// Nanoseconds.
    pub(crate) time: u64,
    pub(crate) detail: Option<Arc<str>>,
}

/// The first `limit` records.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    limit: usize,
    all: Vec<Record>,
    dropped: u64,
    threads: BTreeMap<u32, String>,
}

impl Records {
    /// Makes a list with space for `limit` records.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            all: Vec::new(),
            dropped: 0,
            threads: BTreeMap::new(),
        }
    }

    /// Keeps a record, or counts it as dropped; the thread's name is queried once.
    pub(crate) fn push(&mut self, record: Record, name: impl FnOnce() -> Option<String>) {
        if self.all.len() >= self.limit {
            self.dropped += 1;
            return;
        }
        if !self.threads.contains_key(&record.thread) && self.threads.len() < MAX_NAMES {
            let name = name().unwrap_or_else(|| format!("thread {}", record.thread));
            self.threads.insert(record.thread, name);
        }
        self.all.push(record);
    }

    /// In the order in which they ended.
    pub(crate) fn all(&self) -> &[Record] {
        &self.all
    }

    /// The number of dropped records.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Names of threads by their numbers.
    pub(crate) fn threads(&self) -> &BTreeMap<u32, String> {
        &self.threads
    }
}
