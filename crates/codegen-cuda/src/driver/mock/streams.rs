//! The mock's streams: queues of work that has not run, and events.

use super::OwnedLaunch;
use crate::driver::{Event, Stream};
use std::collections::{BTreeMap, VecDeque};

/// Work that was submitted.
#[derive(Debug)]
pub(super) enum Work {
    CopyIn {
        to: u64,
        from: usize,
        bytes: usize,
    },
    CopyOut {
        to: usize,
        from: u64,
        bytes: usize,
    },
    CopyWithin {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        byte: u8,
        bytes: usize,
    },
    Launch(OwnedLaunch),
    /// An event occurs, for the n-th time.
    Record(Event, u64),
    /// Waits until an event has occurred this many times.
    Wait(Event, u64),
}

#[derive(Default)]
pub(super) struct Streams {
    queues: BTreeMap<Stream, VecDeque<Work>>,
    events: BTreeMap<Event, EventState>,
    random: u64,
}

#[derive(Clone, Copy, Default)]
struct EventState {
    recorded: u64,
    happened: u64,
    stream: Option<Stream>,
}

impl Streams {
    pub(super) fn living(&self) -> (usize, usize) {
        (self.queues.len(), self.events.len())
    }

    pub(super) fn add(&mut self, stream: Stream) {
        self.queues.insert(stream, VecDeque::new());
    }

    pub(super) fn remove(&mut self, stream: Stream) {
        self.queues.remove(&stream);
    }

    pub(super) fn enqueue(&mut self, stream: Stream, work: Work) -> bool {
        let queue = self.queues.get_mut(&stream);
        queue.is_some_and(|queue| {
            queue.push_back(work);
            true
        })
    }

    /// How much of a stream's work runs immediately, at random: usually nothing.
    pub(super) fn early(&mut self, stream: Stream) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let waiting = self.queues.get(&stream).map_or(0, VecDeque::len);
        match (self.random >> 33) % 4 {
            0 => (self.random >> 40) as usize % (waiting + 1),
            _ => 0,
        }
    }

    pub(super) fn take(&mut self, stream: Stream) -> Option<Work> {
        self.queues.get_mut(&stream)?.pop_front()
    }

    pub(super) fn is_idle(&self, stream: Stream) -> bool {
        self.queues.get(&stream).is_none_or(VecDeque::is_empty)
    }

    pub(super) fn add_event(&mut self, event: Event) {
        self.events.insert(event, EventState::default());
    }

    pub(super) fn remove_event(&mut self, event: Event) {
        self.events.remove(&event);
    }

    /// Records an event; returns how often it has been recorded, including this time.
    pub(super) fn record(&mut self, event: Event, stream: Stream) -> Option<u64> {
        let state = self.events.get_mut(&event)?;
        state.recorded += 1;
        state.stream = Some(stream);
        Some(state.recorded)
    }

    pub(super) fn version(&self, event: Event) -> u64 {
        self.events.get(&event).map_or(0, |state| state.recorded)
    }

    pub(super) fn happened(&mut self, event: Event, version: u64) {
        if let Some(state) = self.events.get_mut(&event) {
            state.happened = state.happened.max(version);
        }
    }

    /// The stream on whose work an event waits, if it has not occurred that often.
    pub(super) fn unfinished(&self, event: Event, version: u64) -> Option<Stream> {
        let state = self.events.get(&event)?;
        let stream = state.stream.filter(|_| state.happened < version)?;
        (!self.is_idle(stream)).then_some(stream)
    }
}
