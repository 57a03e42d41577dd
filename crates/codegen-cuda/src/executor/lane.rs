//! The resources of an execution: a stream, a fault word on the device, and words in page-locked memory that host and
//! device access.
#![allow(
    unsafe_code,
    reason = "words that the device writes are read through pointers"
)]

use crate::driver::{Driver, Result, Stream};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A fault word without a fault.
pub(crate) const NO_FAULT: u64 = u64::MAX;

/// The offset of the stop word in the page-locked memory: on a separate cache line.
const STOP_OFFSET: usize = 64;

/// A stream and its words.
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    /// The device's address of the fault word.
    pub(crate) fault: u64,
    /// The device's address of the stop word.
    pub(crate) stop: u64,
    /// The host's 8 bytes to which the fault word is copied; the stop word is in the same memory.
    pinned: NonNull<u8>,
}

// SAFETY: the pointer is to memory that the lane owns.
unsafe impl Send for Lane {}

impl Lane {
    /// Bytes of page-locked memory, and of memory of the device.
    pub(crate) const BYTES: usize = 256;

    /// A lane whose fault word has no fault.
    pub(crate) fn new(driver: &dyn Driver) -> Result<Self> {
        let stream = driver.create_stream()?;
        let (pinned, address) = match driver.alloc_pinned(Self::BYTES) {
            Ok(pinned) => pinned,
            Err(error) => {
                driver.destroy_stream(stream);
                return Err(error);
            }
        };
        let lane = Self {
            stream,
            fault: 0,
            stop: address + STOP_OFFSET as u64,
            pinned,
        };
        match driver.alloc(Self::BYTES) {
            Ok(fault) => {
                let lane = Self { fault, ..lane };
                match lane.clear_fault(driver) {
                    Ok(()) => Ok(lane),
                    Err(error) => {
                        lane.end(driver);
                        Err(error)
                    }
                }
            }
            Err(error) => {
                lane.end(driver);
                Err(error)
            }
        }
    }

    /// Resets the fault word, in order with the stream's work.
    pub(crate) fn clear_fault(&self, driver: &dyn Driver) -> Result<()> {
        // SAFETY: the word is the lane's own, and only its stream's work accesses it.
        unsafe { driver.fill(self.fault, 0xff, size_of::<u64>(), self.stream) }
    }

    /// Copies the fault word to the host, in order with the stream's work.
    pub(crate) fn fetch_fault(&self, driver: &dyn Driver) -> Result<()> {
        // SAFETY: both are the lane's own, and nothing reads the copy before the stream was waited for.
        unsafe { driver.copy_out(self.pinned, self.fault, size_of::<u64>(), self.stream) }
    }

    /// The copy of the fault word, after the stream was waited for.
    pub(crate) fn fault(&self) -> u64 {
        // SAFETY: the memory has these bytes, initialised and aligned, and nothing writes them now.
        unsafe { self.pinned.cast::<u64>().read_volatile() }
    }

    /// The stop word.
    pub(crate) fn stop_word(&self) -> &AtomicU32 {
        // SAFETY: it is inside the memory, which lives as long as the lane, and aligned; the device only reads it.
        unsafe { AtomicU32::from_ptr(self.pinned.add(STOP_OFFSET).cast().as_ptr()) }
    }

    /// Sets the stop word.
    pub(crate) fn set_stop(&self, is_stopped: bool) {
        self.stop_word()
            .store(u32::from(is_stopped), Ordering::Release);
    }

    /// Releases everything; its work is done.
    pub(crate) fn end(self, driver: &dyn Driver) {
        driver.destroy_stream(self.stream);
        // SAFETY: the stream is gone, so nothing uses the memory. An error at this point cannot be reported.
        unsafe {
            let _ = driver.free_pinned(self.pinned);
            if self.fault != 0 {
                let _ = driver.free(self.fault);
            }
        }
    }
}
