//! Attributes each moment of the wall clock.
//!
//! Threads in spans share each moment equally; dividing it among them at every step would take time proportional to the
//! number of threads. So the account has two clocks that slow down with the number of threads: one advances with the
//! wall clock divided by the number of working threads; when no thread is working, the other advances with the wall
//! clock divided by the number of waiting threads. A span's share is the advance of its clock while the span was its
//! thread's innermost, and shares add up by construction. The account does not know the threads: its caller keeps each
//! thread's frames in order.

/// Fixed-point nanoseconds: shares are counted in 2^-32 of one.
const FRACTION_BITS: u32 = 32;

/// The activity of a thread in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is working.
    Work,
    /// It is waiting for the work of other threads.
    Wait,
    /// It is inside a scope, but not in an event.
    Scope,
}

/// An open span of some thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) event: u32,
    /// Nanoseconds of the clock.
    pub(crate) begin: u64,
    /// Nanoseconds in spans directly inside.
    children: u64,
    /// The clock's reading when it last became innermost.
    resumed: u128,
    /// Its share of the wall clock before that.
    share: u128,
}

/// The times of an event so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Spans that ended.
    pub(crate) count: u64,
    /// Short ones of the same kind that were not timed.
    pub(crate) untimed: u64,
    share: u128,
    /// Nanoseconds of threads working in it, excluding nested spans.
    pub(crate) work: u64,
    /// Nanoseconds of threads waiting in it, excluding nested spans.
    pub(crate) waited: u64,
    /// Nanoseconds of threads in it, including nested spans; nested spans of the same event count once.
    pub(crate) total: u64,
    /// Nanoseconds of the longest span.
    pub(crate) longest: u64,
    /// Nanoseconds of device time for it.
    pub(crate) device: u64,
}

impl Tally {
    /// Nanoseconds of the wall clock.
    pub(crate) fn wall(&self) -> u64 {
        to_nanoseconds(self.share)
    }
}

/// The account.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The clock at the last begin or end.
    last: u64,
    working: u32,
    waiting: u32,
    entered: u32,
    work_clock: u128,
    wait_clock: u128,
    wall: u64,
    unattributed: u64,
    most_threads: u32,
    /// Spans of events that have not ended.
    open: u64,
    tallies: Vec<Tally>,
}

/// The account at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    pub(crate) wall: u64,
    pub(crate) unattributed: u64,
    /// Of spans that have not ended.
    pub(crate) open: u64,
    pub(crate) most_threads: u32,
    /// By event; events registered later have taken no time.
    pub(crate) tallies: Vec<Tally>,
}

impl Account {
    /// Opens a span inside a thread's innermost one.
    pub(crate) fn begin(
        &mut self,
        now: u64,
        parent: Option<&mut Frame>,
        event: u32,
        kind: Kind,
    ) -> Frame {
        self.advance(now);
        if let Some(parent) = parent {
            self.leave(parent);
        }
        let mut frame = Frame {
            kind,
            event,
            begin: now,
            children: 0,
            resumed: 0,
            share: 0,
        };
        self.resume(&mut frame);
        self.open += u64::from(kind != Kind::Scope);
        self.most_threads = self.most_threads.max(self.working);
        frame
    }

    /// Closes a thread's innermost span, and returns its nanoseconds. `is_inner`: a span of the same event is around it.
    pub(crate) fn end(
        &mut self,
        now: u64,
        mut frame: Frame,
        parent: Option<&mut Frame>,
        is_inner: bool,
    ) -> u64 {
        self.advance(now);
        self.leave(&mut frame);
        let total = now.saturating_sub(frame.begin);
        if let Some(parent) = parent {
            parent.children = parent.children.saturating_add(total);
            self.resume(parent);
        }
        if frame.kind != Kind::Scope {
            self.open = self.open.saturating_sub(1);
            let own = total.saturating_sub(frame.children);
            let tally = self.tally(frame.event);
            tally.count += 1;
            tally.share += frame.share;
            let by_kind = match frame.kind {
                Kind::Wait => &mut tally.waited,
                Kind::Work | Kind::Scope => &mut tally.work,
            };
            *by_kind = by_kind.saturating_add(own);
            if !is_inner {
                tally.total = tally.total.saturating_add(total);
            }
            tally.longest = tally.longest.max(total);
        }
        total
    }

    /// Adds short spans that were not timed.
    pub(crate) fn add_untimed(&mut self, event: u32, many: u64) {
        self.tally(event).untimed += many;
    }

    /// Adds device time.
    pub(crate) fn add_device(&mut self, event: u32, nanoseconds: u64) {
        let tally = self.tally(event);
        tally.device = tally.device.saturating_add(nanoseconds);
    }

    /// The account so far.
    pub(crate) fn balance(&mut self, now: u64) -> Balance {
        self.advance(now);
        let closed: u128 = self.tallies.iter().map(|tally| tally.share).sum();
        let attributed = self.wall.saturating_sub(self.unattributed);
        let open = if self.open > 0 {
            attributed.saturating_sub(to_nanoseconds(closed))
        } else {
            0
        };
        Balance {
            wall: self.wall,
            unattributed: self.unattributed,
            open,
            most_threads: self.most_threads,
            tallies: self.tallies.clone(),
        }
    }

    /// Advances to now. If the clock went back, the account waits until it has caught up.
    fn advance(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.last);
        if elapsed == 0 {
            return;
        }
        self.last = now;
        if self.working > 0 {
            self.work_clock += share(elapsed, self.working);
        } else if self.waiting > 0 {
            self.wait_clock += share(elapsed, self.waiting);
        } else if self.entered > 0 {
            self.unattributed += elapsed;
        } else {
            return;
        }
        self.wall += elapsed;
    }

    /// Marks a frame as no longer its thread's innermost.
    fn leave(&mut self, frame: &mut Frame) {
        let clock = self.clock(frame.kind);
        frame.share += clock.saturating_sub(frame.resumed);
        let threads = self.threads(frame.kind);
        *threads = threads.saturating_sub(1);
    }

    /// Marks a frame as its thread's innermost.
    fn resume(&mut self, frame: &mut Frame) {
        frame.resumed = self.clock(frame.kind);
        *self.threads(frame.kind) += 1;
    }

    fn clock(&self, kind: Kind) -> u128 {
        match kind {
            Kind::Work => self.work_clock,
            Kind::Wait => self.wait_clock,
            Kind::Scope => 0,
        }
    }

    fn threads(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Work => &mut self.working,
            Kind::Wait => &mut self.waiting,
            Kind::Scope => &mut self.entered,
        }
    }

    fn tally(&mut self, event: u32) -> &mut Tally {
        let index = event as usize;
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, Tally::default());
        }
        &mut self.tallies[index]
    }
}

/// The share of one of `threads` threads.
fn share(elapsed: u64, threads: u32) -> u128 {
    let elapsed = u128::from(elapsed) << FRACTION_BITS;
    if threads == 1 {
        elapsed
    } else {
        elapsed / u128::from(threads)
    }
}

/// To the nearest nanosecond.
fn to_nanoseconds(share: u128) -> u64 {
    let rounded = (share + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
