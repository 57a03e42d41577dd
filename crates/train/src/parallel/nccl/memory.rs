//! The staging memory: page-locked host memory, and as much memory on the GPU.
//!
//! Invariant: it is freed only by `free`, which consumes it. Page-locked memory lets copies run while the host checks
//! for errors.
#![allow(unsafe_code, reason = "the driver copies between raw memory")]

use super::calls::{Calls, Result};
use std::ptr::NonNull;

/// GPU memory and page-locked host memory of the same size.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: usize,
    address: u64,
    start: NonNull<u8>,
}

// SAFETY: the page-locked memory belongs to this alone, and any thread may access it.
unsafe impl Send for Memory {}

impl Memory {
    /// Allocates both.
    pub(super) fn new(calls: &impl Calls, bytes: usize) -> Result<Self> {
        let address = calls.alloc(bytes)?;
        match calls.alloc_pinned(bytes) {
            Ok(start) => Ok(Self {
                bytes,
                address,
                start,
            }),
            Err(error) => {
                // SAFETY: it was just made, and nothing has it.
                unsafe { calls.free(address) };
                Err(error)
            }
        }
    }

    /// The size of a part.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the part on the GPU.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Submits the copy of a part to the GPU.
    ///
    /// # Safety
    /// These calls made the memory, and all work that was submitted to them is done.
    pub(super) unsafe fn upload(&self, calls: &impl Calls, part: &[u8]) -> Result<()> {
        let count = part.len().min(self.bytes);
        // SAFETY: the memory has this many bytes, and nothing else accesses it, as the caller promises.
        unsafe {
            self.start.as_ptr().copy_from(part.as_ptr(), count);
            calls.copy_in(self.address, self.start, count)
        }
    }

    /// Submits the copy of a part of this many bytes from the GPU.
    ///
    /// # Safety
    /// These calls made the memory, and the work that was submitted before leaves its page-locked part alone.
    pub(super) unsafe fn download(&self, calls: &impl Calls, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promises; the work is done in order.
        unsafe { calls.copy_out(self.start, self.address, bytes.min(self.bytes)) }
    }

    /// Copies what was downloaded.
    ///
    /// # Safety
    /// All submitted work is done.
    pub(super) unsafe fn read(&self, part: &mut [u8]) {
        let count = part.len().min(self.bytes);
        // SAFETY: the memory has this many bytes, and nothing writes it, as the caller promises.
        unsafe { part.as_mut_ptr().copy_from(self.start.as_ptr(), count) };
    }

    /// Frees both.
    ///
    /// # Safety
    /// These calls made the memory, and all work that was submitted to them is done.
    pub(super) unsafe fn free(self, calls: &impl Calls) {
        // SAFETY: as the caller promises; both are freed once, as they go with `self`.
        unsafe {
            calls.free_pinned(self.start);
            calls.free(self.address);
        }
    }
}
