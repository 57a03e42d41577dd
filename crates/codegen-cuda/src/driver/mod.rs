//! The part of the CUDA driver API that is used, as a trait: [`Driver`] is one device with its primary context.
//!
//! [`RealDriver`] calls the driver; the mock simulates memory, streams and errors, so that everything above it is
//! tested without a GPU. Handles are plain numbers; the executor tracks what they belong to. Nothing here latches
//! errors.
#![allow(
    unsafe_code,
    reason = "the caller vouches for what the device accesses"
)]

mod error;
#[cfg(any(test, feature = "mock"))]
pub mod mock;
mod real;

pub use error::{DriverError, DriverProblem};
pub use real::RealDriver;

use std::ffi::CStr;
use std::ptr::NonNull;

/// The result of a call of the driver.
pub type Result<T> = std::result::Result<T, DriverError>;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number in the driver's order.
    pub ordinal: u32,
    /// Its marketing name.
    pub name: String,
    /// The compute capability: `(9, 0)`.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the level-2 cache.
    pub l2_bytes: usize,
    /// The maximum number of bytes of shared memory of a block.
    pub max_shared_bytes: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
    /// The version of CUDA that the driver supports: `(13, 0)`.
    pub driver_version: (u32, u32),
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream(pub(crate) u64);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Event(pub(crate) u64);

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Module(pub(crate) u64);

/// A function of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function(pub(crate) u64);

/// An instantiated graph: a chain of launches.
#[derive(Debug)]
pub struct Graph {
    /// The graph as it was built.
    pub(crate) template: u64,
    /// The instantiated one.
    pub(crate) exec: u64,
    /// Its nodes, in order.
    pub(crate) nodes: Vec<u64>,
}

/// A launch of a function whose parameter is an array of 8-byte words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLaunch<'a> {
    /// The function.
    pub function: Function,
    /// The number of blocks, at least 1.
    pub blocks: u32,
    /// Threads of a block, at least 1.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The parameter.
    pub words: &'a [u64],
}

/// One device and its primary context.
///
/// Every call may be made from any thread. A call on a device with a sticky error fails with that error; calls that
/// release resources never panic.
pub trait Driver: Send + Sync {
    /// The properties of the device.
    fn device(&self) -> &DeviceInfo;

    /// Free and total bytes of memory.
    ///
    /// # Errors
    /// As the driver.
    fn memory_info(&self) -> Result<(usize, usize)>;

    /// Memory of the device, aligned to at least 256 bytes.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn alloc(&self, bytes: usize) -> Result<u64>;

    /// Frees memory.
    ///
    /// # Safety
    /// It is from [`alloc`](Self::alloc), is not freed twice, and nothing uses it, now or later.
    ///
    /// # Errors
    /// As the driver.
    unsafe fn free(&self, address: u64) -> Result<()>;

    /// Page-locked memory of the host, which the device can access at the returned device address. It is initialised to
    /// zeros.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    fn alloc_pinned(&self, bytes: usize) -> Result<(NonNull<u8>, u64)>;

    /// Frees page-locked memory.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    ///
    /// # Errors
    /// As the driver.
    unsafe fn free_pinned(&self, start: NonNull<u8>) -> Result<()>;

    /// A stream.
    ///
    /// # Errors
    /// As the driver.
    fn create_stream(&self) -> Result<Stream>;

    /// Ends a stream, once its work is done.
    fn destroy_stream(&self, stream: Stream);

    /// Waits until the work of a stream is done.
    ///
    /// # Errors
    /// The first error of its work.
    fn synchronize(&self, stream: Stream) -> Result<()>;

    /// Whether the work of a stream is done.
    ///
    /// # Errors
    /// The first error of its work.
    fn is_done(&self, stream: Stream) -> Result<bool>;

    /// An event; timed events can be compared with each other.
    ///
    /// # Errors
    /// As the driver.
    fn create_event(&self, is_timed: bool) -> Result<Event>;

    /// Ends an event.
    fn destroy_event(&self, event: Event);

    /// Records an event after the work submitted to a stream so far.
    ///
    /// # Errors
    /// As the driver.
    fn record(&self, event: Event, stream: Stream) -> Result<()>;

    /// Makes later work of a stream wait for an event as it was last recorded.
    ///
    /// # Errors
    /// As the driver.
    fn wait(&self, stream: Stream, event: Event) -> Result<()>;

    /// Waits for an event as it was last recorded.
    ///
    /// # Errors
    /// The first error of the work before it.
    fn synchronize_event(&self, event: Event) -> Result<()>;

    /// Nanoseconds between two timed events that have occurred.
    ///
    /// # Errors
    /// If one has not occurred.
    fn elapsed(&self, first: Event, second: Event) -> Result<u64>;

    /// Copies from page-locked memory of the host to the device.
    ///
    /// # Safety
    /// Both ranges are live until the copy is done, and nothing else writes the source or accesses the destination meanwhile.
    ///
    /// # Errors
    /// As the driver.
    unsafe fn copy_in(&self, to: u64, from: NonNull<u8>, bytes: usize, on: Stream) -> Result<()>;

    /// Copies from the device to page-locked memory of the host.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    ///
    /// # Errors
    /// As the driver.
    unsafe fn copy_out(&self, to: NonNull<u8>, from: u64, bytes: usize, on: Stream) -> Result<()>;

    /// Copies within the device; the ranges do not overlap.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    ///
    /// # Errors
    /// As the driver.
    unsafe fn copy_within(&self, to: u64, from: u64, bytes: usize, stream: Stream) -> Result<()>;

    /// Sets bytes.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    ///
    /// # Errors
    /// As the driver.
    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize, stream: Stream) -> Result<()>;

    /// Loads a cubin.
    ///
    /// # Safety
    /// The cubin is the unchanged output of a compiler.
    ///
    /// # Errors
    /// If it is damaged or for another device.
    unsafe fn load_module(&self, cubin: &[u8]) -> Result<Module>;

    /// Unloads a module, none of whose functions runs.
    fn unload_module(&self, module: Module);

    /// A function of a module, loaded, and allowed all the shared memory that a block can have. Also returns the number
    /// of bytes of dynamic shared memory with which it can be launched.
    ///
    /// # Errors
    /// If there is no function of that name.
    fn function(&self, module: Module, name: &CStr) -> Result<(Function, usize)>;

    /// Launches a function.
    ///
    /// # Safety
    /// The words are what the function expects, and what they point to is live until it has run.
    ///
    /// # Errors
    /// As the driver.
    unsafe fn launch(&self, launch: &FunctionLaunch<'_>, stream: Stream) -> Result<()>;

    /// A graph of launches, one after another.
    ///
    /// # Errors
    /// As the driver: if it rejects the graph, launches still work one by one.
    fn create_graph(&self, launches: &[FunctionLaunch<'_>]) -> Result<Graph>;

    /// Replaces the launch of a graph's node; its function stays the same.
    ///
    /// # Errors
    /// As the driver.
    fn update_graph(&self, graph: &Graph, node: usize, launch: &FunctionLaunch<'_>) -> Result<()>;

    /// Launches a graph.
    ///
    /// # Safety
    /// As [`launch`](Self::launch), for each of its launches.
    ///
    /// # Errors
    /// As the driver.
    unsafe fn launch_graph(&self, graph: &Graph, stream: Stream) -> Result<()>;

    /// Ends a graph that does not run.
    fn destroy_graph(&self, graph: Graph);

    /// The stream in the form that libraries expect.
    fn raw_stream(&self, stream: Stream) -> u64 {
        stream.0
    }

    /// Makes the device's context current on this thread, for libraries that use the current one.
    ///
    /// # Errors
    /// As the driver.
    fn make_current(&self) -> Result<()>;
}
