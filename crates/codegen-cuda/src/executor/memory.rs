//! Device memory, [`DeviceMemory`], and the pool that it is allocated from, [`DevicePool`].
//!
//! Allocations by the driver are slow and synchronise with the whole device, so the pool allocates segments and hands
//! out pieces of them; segments without a piece in use are kept up to a limit.
#![allow(unsafe_code, reason = "memory is freed by its address")]

use super::arena::Arena;
use super::context::Context;
use super::error::DeviceError;
use kiln_backend::{ExecuteError, Memory, MemoryLimits, MemoryPool, MemorySlice, MemoryStats};
use kiln_fork_lock::ForkLock;
use std::sync::Arc;

/// Requests below this share segments.
const SHARES_BELOW: usize = 2 << 20;

/// Bytes of a shared segment.
const SEGMENT_BYTES: usize = 32 << 20;

/// The memory of one executor. Clones share one pool.
#[derive(Clone, Debug)]
pub(crate) struct DevicePool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<Context>,
    limits: MemoryLimits,
    state: ForkLock<State>,
}

#[derive(Debug, Default)]
struct State {
    arena: Arena,
    stats: MemoryStats,
}

/// A piece of a device's memory, rented until it is dropped.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pool: DevicePool,
    /// 0 if there are no bytes.
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its device.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.pool.0.context
    }

    /// The address of `bytes` bytes at `offset`, if they are within the memory.
    pub(crate) fn place(&self, offset: usize, bytes: usize) -> Option<u64> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then_some(self.address + offset as u64)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.address != 0 {
            self.pool.give(self.address);
        }
    }
}

/// The address of a slice, checked to be on this device, inside its memory, and aligned to `alignment`. `what` names it in
/// errors.
pub(crate) fn place_of(
    context: &Arc<Context>,
    slice: &MemorySlice<'_>,
    alignment: usize,
    what: impl Fn() -> String,
) -> Result<u64, DeviceError> {
    let memory = slice.memory.downcast::<DeviceMemory>();
    let memory = memory.filter(|memory| Arc::ptr_eq(memory.context(), context));
    let Some(memory) = memory else {
        return Err(DeviceError::foreign(&what()));
    };
    let Some(place) = memory.place(slice.offset, slice.bytes) else {
        return Err(DeviceError::mismatch(
            what(),
            format_args!("a slice within {} bytes of memory", memory.bytes()),
            format_args!("{} bytes at offset {}", slice.bytes, slice.offset),
        ));
    };
    if slice.bytes > 0 && !place.is_multiple_of(alignment.max(1) as u64) {
        return Err(DeviceError::mismatch(
            what(),
            format_args!("an address that is a multiple of {alignment}"),
            format_args!("offset {}", slice.offset),
        ));
    }
    Ok(place)
}

impl DevicePool {
    /// An empty pool.
    pub(crate) fn new(context: Arc<Context>, limits: MemoryLimits) -> Self {
        Self(Arc::new(Inner {
            context,
            limits,
            state: ForkLock::default(),
        }))
    }

    /// Memory with undefined content.
    pub(crate) fn take(&self, bytes: usize) -> Result<DeviceMemory, DeviceError> {
        let inner = &*self.0;
        inner.context.check()?;
        let address = match bytes {
            0 => 0,
            bytes => self.take_piece(bytes)?,
        };
        Ok(DeviceMemory {
            pool: self.clone(),
            address,
            bytes,
        })
    }

    /// As [`take`](Self::take), as a handle.
    pub(crate) fn rent_memory(&self, bytes: usize) -> Result<Memory, DeviceError> {
        let memory = self.take(bytes)?;
        Ok(Memory::new(Arc::new(memory), bytes))
    }

    fn take_piece(&self, bytes: usize) -> Result<u64, DeviceError> {
        let inner = &*self.0;
        let limit = inner.limits.total_bytes;
        let mut guard = inner.state.lock();
        let State { arena, stats } = &mut *guard;
        stats.rents += 1;
        let refused = |given: usize| DeviceError::MemoryLimit { given, limit };
        let Some(rounded) = Arena::rounded(bytes) else {
            stats.refusals += 1;
            return Err(refused(usize::MAX));
        };
        let sum = stats.rented_bytes.saturating_add(rounded);
        if sum > limit {
            stats.refusals += 1;
            return Err(refused(sum));
        }
        let address = match arena.take(rounded) {
            Some(address) => {
                stats.reuses += 1;
                address
            }
            None => {
                let added = inner.add_segment(arena, rounded);
                if let Err(DeviceError::MemoryLimit { .. }) = added {
                    stats.refusals += 1;
                }
                added?;
                let taken = arena.take(rounded);
                taken.ok_or_else(|| refused(sum))?
            }
        };
        stats.rented_bytes = sum;
        stats.peak_bytes = stats.peak_bytes.max(sum);
        Ok(address)
    }

    fn give(&self, address: u64) {
        let inner = &*self.0;
        let mut guard = inner.state.lock();
        let State { arena, stats } = &mut *guard;
        stats.rented_bytes = stats.rented_bytes.saturating_sub(arena.give(address));
        if arena.free_bytes() > inner.limits.kept_bytes {
            let unused = arena.take_unused(inner.limits.kept_bytes);
            drop(guard);
            inner.free(&unused);
        }
    }
}

impl Inner {
    /// Adds a segment with at least this many free bytes.
    fn add_segment(&self, arena: &mut Arena, rounded: usize) -> Result<(), DeviceError> {
        let generous = match rounded < SHARES_BELOW {
            true => SEGMENT_BYTES,
            false => rounded
                .checked_next_multiple_of(SHARES_BELOW)
                .unwrap_or(rounded),
        };
        let limit = self.limits.total_bytes;
        let mut problem = None;
        for bytes in [generous, rounded] {
            // Frees unused segments to make room for the new one.
            let over = arena
                .all_bytes()
                .saturating_add(bytes)
                .saturating_sub(limit);
            if over > 0 {
                let keep = arena.free_bytes().saturating_sub(over);
                self.free(&arena.take_unused(keep));
            }
            let given = arena.all_bytes().saturating_add(bytes);
            if given > limit {
                problem.get_or_insert(DeviceError::MemoryLimit { given, limit });
                continue;
            }
            let driver = self.context.driver();
            let made = driver.alloc(bytes).or_else(|error| {
                let unused = match error.is_out_of_memory() {
                    true => arena.take_unused(0),
                    false => Vec::new(),
                };
                if unused.is_empty() {
                    return Err(error);
                }
                self.free(&unused);
                driver.alloc(bytes)
            });
            match made {
                Ok(address) => {
                    self.context.counters.segments.add(1);
                    arena.add(address, bytes);
                    return Ok(());
                }
                Err(error) => problem = Some(self.context.no_memory(error, bytes)),
            }
        }
        Err(problem.unwrap_or(DeviceError::MemoryLimit {
            given: rounded,
            limit,
        }))
    }

    /// Frees segments from which no piece is rented.
    fn free(&self, segments: &[(u64, usize)]) {
        if segments.is_empty() {
            return;
        }
        let driver = self.context.driver();
        // Uploads into memory that has been dropped since may still be in progress. Executions keep the memory that
        // they use.
        let _ = self.context.transfers.finish_uploads(driver);
        for &(address, _) in segments {
            // SAFETY: the segment is from `alloc`, was taken out of the arena, and nothing uses it, as was just ensured. An
            // error, of a lost device, cannot be reported.
            let _ = unsafe { driver.free(address) };
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let all = self.state.lock().arena.take_unused(0);
        self.free(&all);
    }
}

impl MemoryPool for DevicePool {
    fn rent(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        Ok(self.rent_memory(bytes)?)
    }

    fn trim(&self, keep: usize) -> usize {
        let unused = self.0.state.lock().arena.take_unused(keep);
        self.0.free(&unused);
        unused.iter().map(|(_, bytes)| bytes).sum()
    }

    fn stats(&self) -> MemoryStats {
        let state = self.0.state.lock();
        let mut stats = state.stats;
        stats.kept_bytes = state.arena.free_bytes();
        stats
    }
}
