//! A rank: a communicator and its staging memory.
//!
//! Invariants: between operations no work is pending, unless the communicator was aborted; it is aborted on the first
//! error, after which every operation fails. The resources of a rank are released when it is dropped, even if it did
//! not start completely.
#![allow(unsafe_code, reason = "what the GPU accesses is this rank's own")]

use super::super::{Collective, CollectiveError, Numbers};
use super::calls::{Calls, Communicator, Element, Result};
use super::id::UniqueId;
use super::memory::Memory;
use std::cell::RefCell;
use std::fmt;
use std::time::{Duration, Instant};

/// How long an operation waits for other ranks unless a limit is set: longer than the compilation of a first step
/// takes.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How often a waiting rank polls before it sleeps between polls.
const EAGER_LOOKS: u32 = 2000;

/// How long it sleeps between polls.
const PAUSE: Duration = Duration::from_micros(50);

/// A rank that computes with others through these calls.
pub(super) struct Ranks<C: Calls> {
    calls: C,
    rank: usize,
    size: usize,
    state: RefCell<State>,
    memory: Option<Memory>,
    limit: Duration,
}

/// Whether a rank can compute.
enum State {
    Connected(Communicator),
    /// The communicator was aborted after this error.
    Failed(CollectiveError),
}

/// The operation on a part on the GPU.
#[derive(Clone, Copy)]
enum Work {
    Sum(Element),
    Broadcast { root: usize },
}

impl<C: Calls> Ranks<C> {
    /// Connects a rank with the others. Parts have `part_bytes`, a multiple of the bytes of every element.
    pub(super) fn start(
        calls: C,
        id: &UniqueId,
        rank: usize,
        size: usize,
        part_bytes: usize,
    ) -> Result<Self> {
        if rank >= size {
            return Err(beyond(size, rank));
        }
        // This comes first, since the other ranks wait for it: a later failure does not leave them waiting in their own
        // start.
        let communicator = calls.connect(id, rank, size)?;
        let mut ranks = Self {
            calls,
            rank,
            size,
            state: RefCell::new(State::Connected(communicator)),
            memory: None,
            limit: PATIENCE,
        };
        match Memory::new(&ranks.calls, part_bytes) {
            Ok(memory) => ranks.memory = Some(memory),
            Err(error) => return Err(ranks.fail(error)),
        }
        Ok(ranks)
    }

    /// Sets how long an operation waits.
    pub(super) fn wait_at_most(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Applies the operation to every part of these bytes.
    fn run(&self, bytes: &mut [u8], work: Work) -> Result<()> {
        let communicator = match &*self.state.borrow() {
            State::Connected(communicator) => *communicator,
            State::Failed(error) => {
                return Err(CollectiveError::new(format!(
                    "expected ranks that are connected, found that an earlier operation failed: {error}"
                )));
            }
        };
        let Some(memory) = &self.memory else {
            unreachable!("a rank without memory was not started");
        };
        for part in bytes.chunks_mut(memory.bytes()) {
            let done = self.run_part(communicator, memory, part, work);
            done.map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Applies the operation to one part.
    fn run_part(
        &self,
        communicator: Communicator,
        memory: &Memory,
        part: &mut [u8],
        work: Work,
    ) -> Result<()> {
        let address = memory.address();
        // SAFETY: no work is pending, and the communicator is live, as in every rank that has not failed. What is submitted
        // here accesses the memory of this rank alone, in order, and is waited for before the memory is accessed again.
        unsafe {
            memory.upload(&self.calls, part)?;
            match work {
                Work::Sum(element) => {
                    let count = part.len() / element.bytes();
                    self.calls
                        .all_reduce(communicator, address, count, element)?;
                }
                Work::Broadcast { root } => {
                    self.calls
                        .broadcast(communicator, address, part.len(), root)?;
                }
            }
            memory.download(&self.calls, part.len())?;
        }
        self.wait(communicator)?;
        // SAFETY: all work is done.
        unsafe { memory.read(part) };
        Ok(())
    }

    /// Waits until all submitted work is done, or an error ends the wait.
    fn wait(&self, communicator: Communicator) -> Result<()> {
        let begin = Instant::now();
        let mut looks = 0;
        loop {
            let is_done = self.calls.is_done()?;
            // Work that was ended by an error is done too.
            // SAFETY: the communicator is live, as in every rank that has not failed.
            unsafe { self.calls.asynchronous_error(communicator)? };
            if is_done {
                return Ok(());
            }
            if begin.elapsed() >= self.limit {
                return Err(CollectiveError::new(format!(
                    "expected the other ranks within {:?}, found that they are late or ended",
                    self.limit
                )));
            }
            match looks < EAGER_LOOKS {
                true => std::thread::yield_now(),
                false => std::thread::sleep(PAUSE),
            }
            looks += 1;
        }
    }

    /// Aborts the communicator after an error, which every later operation returns.
    fn fail(&self, error: CollectiveError) -> CollectiveError {
        let before = self.state.replace(State::Failed(error.clone()));
        if let State::Connected(communicator) = before {
            // SAFETY: it was live, and nothing has it any more.
            unsafe { self.calls.abort(communicator) };
        }
        error
    }
}

impl<C: Calls> Collective for Ranks<C> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&self, numbers: Numbers<'_>) -> Result<()> {
        match numbers {
            Numbers::F32(numbers) => {
                self.run(bytemuck::cast_slice_mut(numbers), Work::Sum(Element::F32))
            }
            Numbers::F64(numbers) => {
                self.run(bytemuck::cast_slice_mut(numbers), Work::Sum(Element::F64))
            }
        }
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        if root >= self.size {
            return Err(beyond(self.size, root));
        }
        self.run(bytes, Work::Broadcast { root })
    }
}

impl<C: Calls> Drop for Ranks<C> {
    fn drop(&mut self) {
        if let State::Connected(communicator) = *self.state.get_mut() {
            // SAFETY: it is live, its work is done, and nothing has it any more.
            unsafe { self.calls.destroy(communicator) };
        }
        if let Some(memory) = self.memory.take() {
            // Waits for copies that were submitted before an error. If the wait fails, the GPU no longer does anything.
            let _ = self.calls.synchronize();
            // SAFETY: all work is done.
            unsafe { memory.free(&self.calls) };
        }
    }
}

impl<C: Calls> fmt::Debug for Ranks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ranks({} of {})", self.rank, self.size)
    }
}

fn beyond(size: usize, rank: usize) -> CollectiveError {
    CollectiveError::new(format!("expected a rank below {size}, found {rank}"))
}
