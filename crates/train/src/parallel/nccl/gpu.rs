//! The calls of NCCL and of the driver, for one GPU.
//!
//! The device's context is made current before each call of NCCL, so calls can be made from any thread.
#![allow(unsafe_code, reason = "the driver and NCCL are C libraries")]

use super::super::CollectiveError;
use super::calls::{Calls, Communicator, Element, Result};
use super::id::UniqueId;
use super::library::Library;
use kiln::internals::codegen_cuda::driver::{Driver, DriverError, RealDriver, Stream};
use std::ptr::NonNull;

/// A GPU with its own stream, and NCCL.
pub(super) struct Gpu {
    driver: RealDriver,
    library: Library,
    stream: Stream,
}

impl Gpu {
    /// Opens the libraries and the device.
    ///
    /// # Errors
    /// If there is no NCCL, no driver or no such device, or one is too old.
    pub(super) fn open(device: u32) -> Result<Self> {
        let library = Library::open()?;
        let driver = RealDriver::open(device);
        let driver = driver.map_err(|problem| CollectiveError::new(problem.to_string()))?;
        let stream = driver.create_stream().map_err(failed)?;
        Ok(Self {
            driver,
            library,
            stream,
        })
    }

    /// The library, for a call with this device.
    fn library(&self) -> Result<&Library> {
        self.driver.make_current().map_err(failed)?;
        Ok(&self.library)
    }

    fn raw_stream(&self) -> u64 {
        self.driver.raw_stream(self.stream)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.driver.destroy_stream(self.stream);
    }
}

fn failed(error: DriverError) -> CollectiveError {
    CollectiveError::new(format!(
        "expected the CUDA driver to succeed, found that {error}"
    ))
}

impl Calls for Gpu {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.driver.alloc(bytes).map_err(failed)
    }

    unsafe fn free(&self, address: u64) {
        // SAFETY: as the caller promises. An error at this point cannot be reported.
        let _ = unsafe { self.driver.free(address) };
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let (start, _) = self.driver.alloc_pinned(bytes).map_err(failed)?;
        Ok(start)
    }

    unsafe fn free_pinned(&self, start: NonNull<u8>) {
        // SAFETY: as the caller promises. An error at this point cannot be reported.
        let _ = unsafe { self.driver.free_pinned(start) };
    }

    unsafe fn copy_in(&self, to: u64, from: NonNull<u8>, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.driver.copy_in(to, from, bytes, self.stream) }.map_err(failed)
    }

    unsafe fn copy_out(&self, to: NonNull<u8>, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.driver.copy_out(to, from, bytes, self.stream) }.map_err(failed)
    }

    fn is_done(&self) -> Result<bool> {
        self.driver.is_done(self.stream).map_err(failed)
    }

    fn synchronize(&self) -> Result<()> {
        self.driver.synchronize(self.stream).map_err(failed)
    }

    fn unique_id(&self) -> Result<UniqueId> {
        self.library()?.unique_id()
    }

    fn connect(&self, id: &UniqueId, rank: usize, size: usize) -> Result<Communicator> {
        self.library()?.connect(id, rank, size)
    }

    unsafe fn all_reduce(
        &self,
        communicator: Communicator,
        address: u64,
        count: usize,
        element: Element,
    ) -> Result<()> {
        let (library, stream) = (self.library()?, self.raw_stream());
        // SAFETY: as the caller promises.
        unsafe { library.all_reduce(communicator, address, count, element, stream) }
    }

    unsafe fn broadcast(
        &self,
        communicator: Communicator,
        address: u64,
        bytes: usize,
        root: usize,
    ) -> Result<()> {
        let (library, stream) = (self.library()?, self.raw_stream());
        // SAFETY: as the caller promises.
        unsafe { library.broadcast(communicator, address, bytes, root, stream) }
    }

    unsafe fn asynchronous_error(&self, communicator: Communicator) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.library.asynchronous_error(communicator) }
    }

    unsafe fn abort(&self, communicator: Communicator) {
        // Without a context, only NCCL's threads are left to end.
        let _ = self.driver.make_current();
        // SAFETY: as the caller promises.
        unsafe { self.library.abort(communicator) };
    }

    unsafe fn destroy(&self, communicator: Communicator) {
        let _ = self.driver.make_current();
        // SAFETY: as the caller promises.
        unsafe { self.library.destroy(communicator) };
    }
}
