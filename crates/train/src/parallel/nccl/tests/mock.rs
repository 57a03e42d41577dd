//! Simulated GPUs, connected like threads, with injected faults.
//!
//! Work runs late: each query of the stream runs one piece of it. A test fails if memory is freed while work is
//! pending, freed twice, or not freed.
#![allow(unsafe_code, reason = "it copies between raw memory, as a GPU does")]

use crate::parallel::nccl::calls::{Calls, Communicator, Element, Result};
use crate::parallel::nccl::id::UniqueId;
use crate::parallel::{Collective, CollectiveError, Local, LocalGroup, Numbers};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The size of a chunk in tests.
pub(super) const PART_BYTES: usize = 64;

/// A fault in the call of this name.
pub(super) fn fault(call: &str) -> CollectiveError {
    CollectiveError::new(format!("planted in {call}"))
}

/// What the ranks of one group share: their current connections and memory.
pub(super) struct World {
    size: usize,
    ranks: Mutex<Vec<Option<Local>>>,
    live: AtomicUsize,
    connected: AtomicUsize,
    aborted: AtomicUsize,
    destroyed: AtomicUsize,
}

impl World {
    pub(super) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            ranks: Mutex::new(LocalGroup::ranks(size).into_iter().map(Some).collect()),
            live: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            aborted: AtomicUsize::new(0),
            destroyed: AtomicUsize::new(0),
        })
    }

    /// The calls of all ranks.
    pub(super) fn mocks(self: &Arc<Self>) -> Vec<Mock> {
        self.mocks_with(|_| None)
    }

    /// The calls of all ranks, one of which fails on some of them.
    pub(super) fn mocks_with(
        self: &Arc<Self>,
        planted: impl Fn(usize) -> Option<&'static str>,
    ) -> Vec<Mock> {
        let mock = |rank| Mock {
            world: Arc::clone(self),
            rank,
            planted: planted(rank),
            local: RefCell::new(None),
            blocks: RefCell::new(HashMap::new()),
            queue: RefCell::new(VecDeque::new()),
            stuck: RefCell::new(None),
            is_late: Cell::new(false),
        };
        (0..self.size).map(mock).collect()
    }

    /// The communicators that were aborted.
    pub(super) fn aborted(&self) -> usize {
        self.aborted.load(SeqCst)
    }

    /// Fails unless all memory and all communicators have been released, after this many communicators were created.
    pub(super) fn expect_released(&self, connected: usize) {
        assert_eq!(self.live.load(SeqCst), 0, "live memory");
        assert_eq!(self.connected.load(SeqCst), connected);
        assert_eq!(self.aborted() + self.destroyed.load(SeqCst), connected);
    }
}

fn id() -> UniqueId {
    UniqueId::from_bytes([9; 128])
}

/// One GPU.
pub(super) struct Mock {
    world: Arc<World>,
    rank: usize,
    planted: Option<&'static str>,
    /// The connection between the ranks, while there is a communicator.
    local: RefCell<Option<Local>>,
    /// Live memory by address.
    blocks: RefCell<HashMap<u64, Box<[u64]>>>,
    queue: RefCell<VecDeque<Job>>,
    /// The error that ended submitted work.
    stuck: RefCell<Option<CollectiveError>>,
    /// Whether work waits for a rank that never joins.
    is_late: Cell<bool>,
}

/// Submitted work.
enum Job {
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Sum {
        at: u64,
        count: usize,
        element: Element,
    },
    Broadcast {
        at: u64,
        bytes: usize,
        root: usize,
    },
}

impl Mock {
    /// The group's id, the rank and the number of ranks.
    pub(super) fn place(&self) -> (UniqueId, usize, usize) {
        (id(), self.rank, self.world.size)
    }

    /// From now on work is never done, as if another rank did not join.
    pub(super) fn late(self) -> Self {
        self.is_late.set(true);
        self
    }

    fn call(&self, name: &str) -> Result<()> {
        match self.planted == Some(name) {
            true => Err(fault(name)),
            false => Ok(()),
        }
    }

    fn submit(&self, job: Job) {
        self.queue.borrow_mut().push_back(job);
    }

    fn block(&self, bytes: usize) -> u64 {
        let mut block = vec![0xabab_abab_abab_abab; bytes.div_ceil(8)].into_boxed_slice();
        let address = block.as_mut_ptr() as u64;
        self.blocks.borrow_mut().insert(address, block);
        self.world.live.fetch_add(1, SeqCst);
        address
    }

    fn release(&self, address: u64) {
        assert!(
            self.queue.borrow().is_empty(),
            "freed while work is pending"
        );
        let block = self.blocks.borrow_mut().remove(&address);
        assert!(block.is_some(), "freed what is not live");
        self.world.live.fetch_sub(1, SeqCst);
    }

    /// Does the next piece of work; returns false if there is none, or if it cannot be done.
    fn work(&self) -> bool {
        let Some(job) = self.queue.borrow_mut().pop_front() else {
            return false;
        };
        let local = self.local.borrow();
        let result = match (job, &*local) {
            (Job::Copy { to, from, bytes }, _) => {
                // SAFETY: both are live until the stream is done, and do not overlap.
                unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
                Ok(())
            }
            (_, None) => panic!("work of a communicator that was ended"),
            (Job::Sum { at, count, element }, Some(local)) => {
                let numbers = match element {
                    // SAFETY: the memory is live and aligned, and nothing else accesses it.
                    Element::F32 => Numbers::F32(unsafe { slice(at, count) }),
                    // SAFETY: as above.
                    Element::F64 => Numbers::F64(unsafe { slice(at, count) }),
                };
                local.all_reduce(numbers)
            }
            (Job::Broadcast { at, bytes, root }, Some(local)) => {
                // SAFETY: as above.
                local.broadcast(unsafe { slice(at, bytes) }, root)
            }
        };
        match result {
            Ok(()) => true,
            Err(error) => {
                *self.stuck.borrow_mut() = Some(error);
                false
            }
        }
    }

    fn end(&self, communicator: Communicator) {
        assert_eq!(communicator, Communicator(self.rank + 1));
        let local = self.local.borrow_mut().take();
        assert!(local.is_some(), "ended what is not live");
    }
}

/// # Safety
/// The memory is live and aligned, and nothing else accesses it.
unsafe fn slice<'a, T>(at: u64, count: usize) -> &'a mut [T] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(at as *mut T, count) }
}

impl Calls for Mock {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.call("alloc")?;
        Ok(self.block(bytes))
    }

    unsafe fn free(&self, address: u64) {
        self.release(address);
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.call("alloc_pinned")?;
        Ok(NonNull::new(self.block(bytes) as *mut u8).unwrap())
    }

    unsafe fn free_pinned(&self, start: NonNull<u8>) {
        self.release(start.as_ptr() as u64);
    }

    unsafe fn copy_in(&self, to: u64, from: NonNull<u8>, bytes: usize) -> Result<()> {
        self.call("copy_in")?;
        let from = from.as_ptr() as u64;
        self.submit(Job::Copy { to, from, bytes });
        Ok(())
    }

    unsafe fn copy_out(&self, to: NonNull<u8>, from: u64, bytes: usize) -> Result<()> {
        self.call("copy_out")?;
        let to = to.as_ptr() as u64;
        self.submit(Job::Copy { to, from, bytes });
        Ok(())
    }

    fn is_done(&self) -> Result<bool> {
        self.call("is_done")?;
        if self.is_late.get() || self.stuck.borrow().is_some() {
            return Ok(false);
        }
        Ok(!self.work() && self.stuck.borrow().is_none())
    }

    fn synchronize(&self) -> Result<()> {
        while self.work() {}
        self.call("synchronize")
    }

    fn unique_id(&self) -> Result<UniqueId> {
        self.call("unique_id")?;
        Ok(id())
    }

    fn connect(&self, given: &UniqueId, rank: usize, size: usize) -> Result<Communicator> {
        let local = self.world.ranks.lock().unwrap()[rank].take();
        self.call("connect")?;
        assert_eq!((given, rank, size), (&id(), self.rank, self.world.size));
        *self.local.borrow_mut() = local;
        self.world.connected.fetch_add(1, SeqCst);
        Ok(Communicator(rank + 1))
    }

    unsafe fn all_reduce(
        &self,
        _: Communicator,
        at: u64,
        count: usize,
        element: Element,
    ) -> Result<()> {
        self.call("all_reduce")?;
        self.submit(Job::Sum { at, count, element });
        Ok(())
    }

    unsafe fn broadcast(&self, _: Communicator, at: u64, bytes: usize, root: usize) -> Result<()> {
        self.call("broadcast")?;
        self.submit(Job::Broadcast { at, bytes, root });
        Ok(())
    }

    unsafe fn asynchronous_error(&self, _: Communicator) -> Result<()> {
        self.call("asynchronous_error")?;
        self.stuck.borrow().clone().map_or(Ok(()), Err)
    }

    unsafe fn abort(&self, communicator: Communicator) {
        self.end(communicator);
        let is_copy = |job: &Job| matches!(job, Job::Copy { .. });
        self.queue.borrow_mut().retain(is_copy);
        self.world.aborted.fetch_add(1, SeqCst);
    }

    unsafe fn destroy(&self, communicator: Communicator) {
        assert!(
            self.queue.borrow().is_empty(),
            "destroyed while work is pending"
        );
        self.end(communicator);
        self.world.destroyed.fetch_add(1, SeqCst);
    }
}
