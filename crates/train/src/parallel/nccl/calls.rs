//! The parts of NCCL and of the driver that are used, as a trait: one GPU, with one stream that all work is submitted
//! to.
//!
//! `gpu` calls the libraries; tests simulate them, with ranks that are threads. Handles are plain numbers, and nothing
//! here latches errors.
#![allow(unsafe_code, reason = "the caller vouches for what the GPU accesses")]

use super::super::CollectiveError;
use super::id::UniqueId;
use std::ptr::NonNull;

/// The result of a call.
pub(super) type Result<T> = std::result::Result<T, CollectiveError>;

/// A communicator: the library's handle of a rank's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Communicator(pub(super) usize);

/// The type of the summed elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F64,
}

impl Element {
    /// Its size in bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// The functions of NCCL and of the driver.
pub(super) trait Calls: Send {
    /// Memory of the GPU.
    fn alloc(&self, bytes: usize) -> Result<u64>;

    /// Frees memory.
    ///
    /// # Safety
    /// It is from [`alloc`](Self::alloc), is not freed twice, and nothing uses it, now or later.
    unsafe fn free(&self, address: u64);

    /// Page-locked memory of the host.
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees page-locked memory.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    unsafe fn free_pinned(&self, start: NonNull<u8>);

    /// Submits a copy from page-locked memory to the GPU.
    ///
    /// # Safety
    /// Both ranges are live until the stream is done, and nothing else writes the source or accesses the destination meanwhile.
    unsafe fn copy_in(&self, to: u64, from: NonNull<u8>, bytes: usize) -> Result<()>;

    /// Submits a copy from the GPU to page-locked memory.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    unsafe fn copy_out(&self, to: NonNull<u8>, from: u64, bytes: usize) -> Result<()>;

    /// Whether all submitted work is done.
    fn is_done(&self) -> Result<bool>;

    /// Waits until all submitted work is done.
    fn synchronize(&self) -> Result<()>;

    /// The id of a new group.
    fn unique_id(&self) -> Result<UniqueId>;

    /// Connects a rank with the others, and waits for them.
    fn connect(&self, id: &UniqueId, rank: usize, size: usize) -> Result<Communicator>;

    /// Submits a sum over all ranks, in place.
    ///
    /// # Safety
    /// The communicator is live, the range has `count` elements and is live until the stream is done, and nothing else
    /// accesses it meanwhile.
    unsafe fn all_reduce(
        &self,
        communicator: Communicator,
        address: u64,
        count: usize,
        element: Element,
    ) -> Result<()>;

    /// Submits a copy of a rank's bytes to all ranks, in place.
    ///
    /// # Safety
    /// As [`all_reduce`](Self::all_reduce).
    unsafe fn broadcast(
        &self,
        communicator: Communicator,
        address: u64,
        bytes: usize,
        root: usize,
    ) -> Result<()>;

    /// The error that the submitted work of a communicator encountered, if any.
    ///
    /// # Safety
    /// The communicator is live.
    unsafe fn asynchronous_error(&self, communicator: Communicator) -> Result<()>;

    /// Ends a communicator and aborts its submitted work, without waiting for the other ranks.
    ///
    /// # Safety
    /// The communicator is live, and is not used afterwards.
    unsafe fn abort(&self, communicator: Communicator);

    /// Ends a communicator whose work is done.
    ///
    /// # Safety
    /// As [`abort`](Self::abort).
    unsafe fn destroy(&self, communicator: Communicator);
}
