//! Copies between host and device, through page-locked memory.
//!
//! Uploads are submitted to one stream and return before they are complete; each launch of an execution waits for the
//! uploads submitted before it ([`Transfers::wait_for_uploads`]). Downloads wait for their result. Large copies
//! alternate between two slots, so that the bus is busy while the host copies.
#![allow(
    unsafe_code,
    reason = "page-locked memory is accessed through pointers"
)]

use crate::driver::{Driver, Event, Result, Stream};
use kiln_fork_lock::ForkLock;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a slot: large enough to reach the bandwidth of the bus.
const SLOT_BYTES: usize = 4 << 20;

/// Copies in both directions.
pub(crate) struct Transfers {
    up: Stream,
    down: Stream,
    /// Recorded after each upload.
    uploaded: Event,
    /// The number of uploads submitted.
    uploads: AtomicU64,
    up_slots: ForkLock<Option<Slots>>,
    down_slots: ForkLock<Option<Slots>>,
}

/// Two slots of page-locked memory.
struct Slots {
    start: NonNull<u8>,
    slots: [Slot; 2],
    next: usize,
}

struct Slot {
    /// Recorded after the last copy from or to the slot.
    copied: Event,
    is_pending: bool,
}

// SAFETY: the pointer is to memory that the slots own.
unsafe impl Send for Slots {}

impl Slots {
    fn new(driver: &dyn Driver) -> Result<Self> {
        let (start, _) = driver.alloc_pinned(2 * SLOT_BYTES)?;
        let event = || driver.create_event(false);
        let events = event().and_then(|first| {
            let second = event();
            if second.is_err() {
                driver.destroy_event(first);
            }
            Ok([first, second?])
        });
        match events {
            Ok(events) => Ok(Self {
                start,
                slots: events.map(|copied| Slot {
                    copied,
                    is_pending: false,
                }),
                next: 0,
            }),
            Err(error) => {
                // SAFETY: it was just made, and nothing uses it.
                let _ = unsafe { driver.free_pinned(start) };
                Err(error)
            }
        }
    }

    /// The next slot in turn, with its address, once its last copy is done.
    fn take(&mut self, driver: &dyn Driver) -> Result<(NonNull<u8>, &mut Slot)> {
        let number = self.next;
        self.next = 1 - self.next;
        // SAFETY: there are two slots.
        let place = unsafe { self.start.add(number * SLOT_BYTES) };
        let [first, second] = &mut self.slots;
        let slot = if number == 0 { first } else { second };
        if slot.is_pending {
            driver.synchronize_event(slot.copied)?;
            slot.is_pending = false;
        }
        Ok((place, slot))
    }

    fn end(self, driver: &dyn Driver) {
        for slot in &self.slots {
            if slot.is_pending {
                let _ = driver.synchronize_event(slot.copied);
            }
            driver.destroy_event(slot.copied);
        }
        // SAFETY: its copies are done. An error at this point cannot be reported.
        let _ = unsafe { driver.free_pinned(self.start) };
    }
}

impl Transfers {
    /// Streams and an event; the page-locked memory is allocated when it is first needed.
    pub(crate) fn new(driver: &dyn Driver) -> Result<Self> {
        let uploaded = driver.create_event(false)?;
        let up = driver.create_stream()?;
        let down = driver.create_stream()?;
        driver.record(uploaded, up)?;
        Ok(Self {
            up,
            down,
            uploaded,
            uploads: AtomicU64::new(0),
            up_slots: ForkLock::default(),
            down_slots: ForkLock::default(),
        })
    }

    /// Copies bytes to memory of the device, in order with other uploads; returns before the copy is done.
    ///
    /// # Safety
    /// `to` is the start of at least as many bytes of live memory, which nothing but waiting executions uses until it is done.
    pub(crate) unsafe fn upload(&self, driver: &dyn Driver, to: u64, bytes: &[u8]) -> Result<()> {
        let mut slots = self.up_slots.lock();
        let slots = match &mut *slots {
            Some(slots) => slots,
            none => none.insert(Slots::new(driver)?),
        };
        let mut copied = Ok(());
        let mut address = to;
        for chunk in bytes.chunks(SLOT_BYTES) {
            copied = slots.take(driver).and_then(|(place, slot)| {
                // SAFETY: the slot is at least as long as the chunk, and its last copy is done; the destination is live, as
                // the caller promises.
                unsafe {
                    place.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
                    driver.copy_in(address, place, chunk.len(), self.up)?;
                }
                slot.is_pending = true;
                driver.record(slot.copied, self.up)
            });
            if copied.is_err() {
                break;
            }
            address += chunk.len() as u64;
        }
        // This is recorded also after an error, because part of the copy may be in progress.
        let recorded = driver.record(self.uploaded, self.up);
        self.uploads.fetch_add(1, Ordering::Release);
        copied.and(recorded)
    }

    /// Copies within the device, treated as an upload: it is in order with uploads, and executions wait for it.
    ///
    /// # Safety
    /// As [`upload`](Self::upload), for both ranges.
    pub(crate) unsafe fn copy_within(
        &self,
        driver: &dyn Driver,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<()> {
        // It is serialised with uploads, so that the event is recorded after all uploads that are counted.
        let _slots = self.up_slots.lock();
        // SAFETY: as the caller promises.
        let copied = unsafe { driver.copy_within(to, from, bytes, self.up) };
        let recorded = driver.record(self.uploaded, self.up);
        self.uploads.fetch_add(1, Ordering::Release);
        copied.and(recorded)
    }

    /// Makes later work of a stream wait for every upload submitted so far, unless it already does. `waited` is the number of
    /// uploads it waits for.
    pub(crate) fn wait_for_uploads(
        &self,
        driver: &dyn Driver,
        stream: Stream,
        waited: &mut u64,
    ) -> Result<()> {
        let submitted = self.uploads.load(Ordering::Acquire);
        if *waited == submitted {
            return Ok(());
        }
        driver.wait(stream, self.uploaded)?;
        *waited = submitted;
        Ok(())
    }

    /// Waits until every upload is done.
    pub(crate) fn finish_uploads(&self, driver: &dyn Driver) -> Result<()> {
        driver.synchronize(self.up)
    }

    /// Copies bytes from memory of the device, after every upload submitted before; returns when they have arrived.
    ///
    /// # Safety
    /// `from` is the start of at least as many bytes of live memory, which nothing writes meanwhile.
    pub(crate) unsafe fn download(
        &self,
        driver: &dyn Driver,
        from: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let mut slots = self.down_slots.lock();
        let slots = match &mut *slots {
            Some(slots) => slots,
            none => none.insert(Slots::new(driver)?),
        };
        driver.wait(self.down, self.uploaded)?;
        let mut address = from;
        let mut on_its_way: Option<(NonNull<u8>, Event, &mut [u8])> = None;
        for chunk in bytes.chunks_mut(SLOT_BYTES) {
            let (place, slot) = slots.take(driver)?;
            // SAFETY: the slot is at least as long as the chunk and not in use; the source is live, as the caller promises.
            unsafe { driver.copy_out(place, address, chunk.len(), self.down)? };
            slot.is_pending = true;
            driver.record(slot.copied, self.down)?;
            address += chunk.len() as u64;
            let before = on_its_way.replace((place, slot.copied, chunk));
            before.map_or(Ok(()), |before| receive(driver, before))?;
        }
        on_its_way.map_or(Ok(()), |last| receive(driver, last))
    }

    /// Releases everything.
    pub(crate) fn end(&self, driver: &dyn Driver) {
        for slots in [&self.up_slots, &self.down_slots] {
            let slots = slots.lock().take();
            if let Some(slots) = slots {
                slots.end(driver);
            }
        }
        driver.destroy_stream(self.up);
        driver.destroy_stream(self.down);
        driver.destroy_event(self.uploaded);
    }
}

/// Copies a chunk out of its slot once it has arrived.
fn receive(
    driver: &dyn Driver,
    (place, copied, chunk): (NonNull<u8>, Event, &mut [u8]),
) -> Result<()> {
    driver.synchronize_event(copied)?;
    // SAFETY: the slot is at least as long as the chunk, and the copy into it is done.
    unsafe {
        NonNull::from(&mut *chunk)
            .cast::<u8>()
            .copy_from_nonoverlapping(place, chunk.len())
    };
    Ok(())
}
