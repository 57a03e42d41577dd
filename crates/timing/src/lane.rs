//! The open spans of each thread, innermost last: of all recorders, since a thread may be in several at once.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::{Frame, Kind};

static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static LANE: RefCell<Lane> = RefCell::new(Lane::new());
}

/// An open span.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) recorder: u32,
    pub(crate) serial: u64,
    pub(crate) frame: Frame,
    /// Its details for a record.
    pub(crate) detail: Option<Arc<str>>,
}

/// The open spans of one thread.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The thread's number, among all threads of the process.
    pub(crate) thread: u32,
    opens: Vec<Open>,
    next_serial: u64,
}

impl Lane {
    fn new() -> Self {
        Self {
            thread: NEXT_THREAD.fetch_add(1, Ordering::Relaxed),
            opens: Vec::new(),
            next_serial: 0,
        }
    }

    /// Calls with this thread's lane; a thread that is exiting has none.
    pub(crate) fn with<R>(look: impl FnOnce(&mut Self) -> R) -> Option<R> {
        LANE.try_with(|lane| lane.try_borrow_mut().ok().map(|mut lane| look(&mut lane)))
            .ok()
            .flatten()
    }

    /// A recorder's innermost span.
    pub(crate) fn innermost(&mut self, recorder: u32) -> Option<&mut Open> {
        let mut opens = self.opens.iter_mut().rev();
        opens.find(|open| open.recorder == recorder)
    }

    /// Opens a span inside all others; returns its name on this thread.
    pub(crate) fn push(&mut self, recorder: u32, frame: Frame, detail: Option<Arc<str>>) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.opens.push(Open {
            recorder,
            serial,
            frame,
            detail,
        });
        serial
    }

    /// A span, if it is still open.
    pub(crate) fn find(&mut self, recorder: u32, serial: u64) -> Option<&mut Open> {
        let mut opens = self.opens.iter_mut().rev();
        opens.find(|open| open.recorder == recorder && open.serial == serial)
    }

    /// Removes a recorder's innermost span if it is `serial` or was opened after it: leaked spans end with the surrounding
    /// one.
    pub(crate) fn pop(&mut self, recorder: u32, serial: u64) -> Option<Open> {
        let position = self
            .opens
            .iter()
            .rposition(|open| open.recorder == recorder)?;
        if self.opens.get(position)?.serial < serial {
            return None;
        }
        Some(self.opens.remove(position))
    }

    /// Whether a recorder has an open span of an event.
    pub(crate) fn is_in(&self, recorder: u32, event: u32) -> bool {
        let mut opens = self.opens.iter().filter(|open| open.recorder == recorder);
        opens.any(|open| open.frame.kind != Kind::Scope && open.frame.event == event)
    }
}
