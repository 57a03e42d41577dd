//! A mock driver without a device, for tests: memory is host memory, streams are queues, kernels are evaluated.
//!
//! It behaves as asynchronously as a device may: submitted work runs late, at the latest when it is waited for, and
//! copies access page-locked memory only then. Work that uses memory that was freed or never allocated reports an
//! illegal address, a sticky error. Errors of every kind can be injected. A module's "cubin" is the text of a kernel.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a part of tests"
)]

mod compiler;
mod kernels;
mod memory;
mod streams;

pub use compiler::MockCompiler;

use super::{
    DeviceInfo, Driver, DriverError, Event, Function, FunctionLaunch, Graph, Module, Result, Stream,
};
use kiln_fork_lock::ForkLock;
use memory::AddressSpace;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;
use streams::{Streams, Work};

/// `CUDA_ERROR_ILLEGAL_ADDRESS`.
pub const ILLEGAL_ADDRESS: u32 = 700;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = 2;

const INVALID_VALUE: u32 = 1;
const INVALID_IMAGE: u32 = 200;
const NOT_FOUND: u32 = 500;
const NOT_SUPPORTED: u32 = 801;

/// A simulated device. Clones share one device.
#[derive(Clone)]
pub struct MockDriver {
    info: DeviceInfo,
    state: Arc<ForkLock<State>>,
}

struct State {
    memory: AddressSpace,
    streams: Streams,
    modules: BTreeMap<u64, kernels::TextKernel>,
    functions: BTreeMap<u64, u64>,
    graphs: BTreeMap<u64, Vec<OwnedLaunch>>,
    /// The sticky error that every call returns.
    sticky: Option<DriverError>,
    /// How many calls succeed before one fails, and the error's number.
    planted: Option<(usize, u32)>,
    calls: usize,
    refuses_graphs: bool,
    next: u64,
    max_blocks: u32,
}

/// A launch with its own copy of the parameter's words.
#[derive(Clone, Debug)]
struct OwnedLaunch {
    function: Function,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    words: Vec<u64>,
}

/// An error of the driver with this number.
fn error(call: &'static str, code: u32) -> DriverError {
    let name = match code {
        ILLEGAL_ADDRESS => "CUDA_ERROR_ILLEGAL_ADDRESS",
        OUT_OF_MEMORY => "CUDA_ERROR_OUT_OF_MEMORY",
        INVALID_VALUE => "CUDA_ERROR_INVALID_VALUE",
        INVALID_IMAGE => "CUDA_ERROR_INVALID_IMAGE",
        NOT_FOUND => "CUDA_ERROR_NOT_FOUND",
        NOT_SUPPORTED => "CUDA_ERROR_NOT_SUPPORTED",
        _ => "CUDA_ERROR_PLANTED",
    };
    DriverError {
        call,
        code,
        name: name.to_owned(),
    }
}

impl Default for MockDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl MockDriver {
    /// A device with a GiB of memory.
    pub fn new() -> Self {
        Self::with_memory(1 << 30)
    }

    /// A device with this much memory.
    pub fn with_memory(bytes: usize) -> Self {
        Self {
            info: DeviceInfo {
                ordinal: 0,
                name: "a mock".to_owned(),
                capability: (9, 0),
                multiprocessors: 4,
                l2_bytes: 1 << 20,
                max_shared_bytes: 227 << 10,
                memory_bytes: bytes,
                driver_version: (13, 0),
            },
            state: Arc::new(ForkLock::new(move || State {
                memory: AddressSpace::new(bytes),
                streams: Streams::default(),
                modules: BTreeMap::new(),
                functions: BTreeMap::new(),
                graphs: BTreeMap::new(),
                sticky: None,
                planted: None,
                calls: 0,
                refuses_graphs: false,
                next: 1,
                max_blocks: 0,
            })),
        }
    }

    /// A call fails with this driver error after this many other calls.
    pub fn fail_after(&self, calls: usize, code: u32) {
        self.state.lock().planted = Some((calls, code));
    }

    /// Makes the device reject graphs.
    pub fn refuse_graphs(&self) {
        self.state.lock().refuses_graphs = true;
    }

    /// The number of calls so far that injected errors can affect.
    pub fn calls(&self) -> usize {
        self.state.lock().calls
    }

    /// Bytes of memory in use: of the device, and page-locked.
    pub fn used_bytes(&self) -> (usize, usize) {
        self.state.lock().memory.used_bytes()
    }

    /// Modules, graphs, streams and events that exist.
    pub fn living(&self) -> [usize; 4] {
        let state = self.state.lock();
        let (streams, events) = state.streams.living();
        [state.modules.len(), state.graphs.len(), streams, events]
    }

    /// Runs an operation unless an error is due.
    fn with<T>(&self, call: &'static str, act: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        state.calls += 1;
        if let Some(error) = &state.sticky {
            let error = error.clone();
            return Err(DriverError { call, ..error });
        }
        if let Some((left, code)) = &mut state.planted {
            if *left == 0 {
                let error = error(call, *code);
                state.planted = None;
                if error.is_sticky() {
                    state.sticky = Some(error.clone());
                }
                return Err(error);
            }
            *left -= 1;
        }
        let result = act(&mut state);
        if let Err(error) = &result
            && error.is_sticky()
        {
            state.sticky = Some(error.clone());
        }
        result
    }

    /// Releases a resource: injected errors do not affect this, so that tests can count the remaining resources.
    fn release<T>(
        &self,
        call: &'static str,
        act: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let planted = self.state.lock().planted.take();
        let result = self.with(call, act);
        let mut state = self.state.lock();
        state.planted = planted;
        state.calls -= 1;
        result
    }

    fn enqueue(&self, call: &'static str, stream: Stream, work: Work) -> Result<()> {
        self.with(call, |state| {
            if !state.streams.enqueue(stream, work) {
                return Err(error(call, INVALID_VALUE));
            }
            // Some of the work runs immediately.
            let early = state.streams.early(stream);
            state.run(call, stream, early)
        })
    }
}

impl State {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Runs this much of a stream's work, and the work on which it waits.
    fn run(&mut self, call: &'static str, stream: Stream, count: usize) -> Result<()> {
        for _ in 0..count {
            let Some(work) = self.streams.take(stream) else {
                break;
            };
            if let Work::Wait(event, version) = &work {
                while let Some(other) = self.streams.unfinished(*event, *version) {
                    self.run(call, other, 1)?;
                }
                continue;
            }
            if self.perform(&work).is_none() {
                return Err(error(call, ILLEGAL_ADDRESS));
            }
        }
        Ok(())
    }

    /// Does a piece of work; `None` if it uses memory that does not exist.
    fn perform(&mut self, work: &Work) -> Option<()> {
        match work {
            Work::CopyIn { to, from, bytes } => self.memory.copy_in(*to, *from, *bytes),
            Work::CopyOut { to, from, bytes } => self.memory.copy_out(*to, *from, *bytes),
            Work::CopyWithin { to, from, bytes } => {
                let bytes = self.memory.read(*from, *bytes)?;
                self.memory.write(*to, &bytes)
            }
            Work::Fill { to, byte, bytes } => self.memory.write(*to, &vec![*byte; *bytes]),
            Work::Record(event, version) => {
                self.streams.happened(*event, *version);
                Some(())
            }
            Work::Wait(..) => Some(()),
            Work::Launch(launch) => {
                let module = self.functions.get(&launch.function.0)?;
                let kernel = self.modules.get(module)?.clone();
                self.max_blocks = self.max_blocks.max(launch.blocks);
                kernel.run(&mut self.memory, &launch.words)
            }
        }
    }

    fn owned(launch: &FunctionLaunch<'_>) -> OwnedLaunch {
        OwnedLaunch {
            function: launch.function,
            blocks: launch.blocks,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            words: launch.words.to_vec(),
        }
    }
}

/// Whether a launch is one that a device accepts.
fn is_launchable(launch: &OwnedLaunch) -> bool {
    launch.blocks > 0
        && (1..=1024).contains(&launch.threads)
        && launch.shared_bytes <= 227 << 10
        && launch.words.len() <= 512
}

#[allow(unsafe_code, reason = "implementing an unsafe interface")]
impl Driver for MockDriver {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory_info(&self) -> Result<(usize, usize)> {
        self.with("cuMemGetInfo_v2", |state| {
            let total = state.memory.limit();
            Ok((total - state.memory.used_bytes().0.min(total), total))
        })
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.with("cuMemAlloc_v2", |state| {
            let made = state.memory.alloc(bytes);
            made.ok_or_else(|| error("cuMemAlloc_v2", OUT_OF_MEMORY))
        })
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.release("cuMemFree_v2", |state| {
            let freed = state.memory.free(address);
            freed.ok_or_else(|| error("cuMemFree_v2", INVALID_VALUE))
        })
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<(NonNull<u8>, u64)> {
        self.with("cuMemHostAlloc", |state| {
            Ok(state.memory.alloc_pinned(bytes))
        })
    }

    unsafe fn free_pinned(&self, start: NonNull<u8>) -> Result<()> {
        self.release("cuMemFreeHost", |state| {
            let freed = state.memory.free_pinned(start);
            freed.ok_or_else(|| error("cuMemFreeHost", INVALID_VALUE))
        })
    }

    fn create_stream(&self) -> Result<Stream> {
        self.with("cuStreamCreate", |state| {
            let stream = Stream(state.fresh());
            state.streams.add(stream);
            Ok(stream)
        })
    }

    fn destroy_stream(&self, stream: Stream) {
        let _ = self.release("cuStreamDestroy_v2", |state| {
            state.run("cuStreamDestroy_v2", stream, usize::MAX)?;
            state.streams.remove(stream);
            Ok(())
        });
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        self.with("cuStreamSynchronize", |state| {
            state.run("cuStreamSynchronize", stream, usize::MAX)
        })
    }

    fn is_done(&self, stream: Stream) -> Result<bool> {
        self.with("cuStreamQuery", |state| {
            state.run("cuStreamQuery", stream, 1)?;
            Ok(state.streams.is_idle(stream))
        })
    }

    fn create_event(&self, _is_timed: bool) -> Result<Event> {
        self.with("cuEventCreate", |state| {
            let event = Event(state.fresh());
            state.streams.add_event(event);
            Ok(event)
        })
    }

    fn destroy_event(&self, event: Event) {
        let _ = self.release("cuEventDestroy_v2", |state| {
            state.streams.remove_event(event);
            Ok(())
        });
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let version = self.with("cuEventRecord", |state| {
            let version = state.streams.record(event, stream);
            version.ok_or_else(|| error("cuEventRecord", INVALID_VALUE))
        })?;
        self.enqueue("cuEventRecord", stream, Work::Record(event, version))
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        let version = self.with("cuStreamWaitEvent", |state| {
            Ok(state.streams.version(event))
        })?;
        self.enqueue("cuStreamWaitEvent", stream, Work::Wait(event, version))
    }

    fn synchronize_event(&self, event: Event) -> Result<()> {
        self.with("cuEventSynchronize", |state| {
            let version = state.streams.version(event);
            while let Some(stream) = state.streams.unfinished(event, version) {
                state.run("cuEventSynchronize", stream, 1)?;
            }
            Ok(())
        })
    }

    fn elapsed(&self, _first: Event, _second: Event) -> Result<u64> {
        self.with("cuEventElapsedTime_v2", |_| Ok(1000))
    }

    unsafe fn copy_in(
        &self,
        to: u64,
        from: NonNull<u8>,
        bytes: usize,
        stream: Stream,
    ) -> Result<()> {
        let from = from.as_ptr() as usize;
        self.enqueue(
            "cuMemcpyHtoDAsync_v2",
            stream,
            Work::CopyIn { to, from, bytes },
        )
    }

    unsafe fn copy_out(
        &self,
        to: NonNull<u8>,
        from: u64,
        bytes: usize,
        stream: Stream,
    ) -> Result<()> {
        let to = to.as_ptr() as usize;
        self.enqueue(
            "cuMemcpyDtoHAsync_v2",
            stream,
            Work::CopyOut { to, from, bytes },
        )
    }

    unsafe fn copy_within(&self, to: u64, from: u64, bytes: usize, stream: Stream) -> Result<()> {
        let work = Work::CopyWithin { to, from, bytes };
        self.enqueue("cuMemcpyDtoDAsync_v2", stream, work)
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize, stream: Stream) -> Result<()> {
        self.enqueue("cuMemsetD8Async", stream, Work::Fill { to, byte, bytes })
    }

    unsafe fn load_module(&self, cubin: &[u8]) -> Result<Module> {
        self.with("cuModuleLoadData", |state| {
            let kernel = kernels::TextKernel::read(cubin);
            let kernel = kernel.ok_or_else(|| error("cuModuleLoadData", INVALID_IMAGE))?;
            let module = state.fresh();
            state.modules.insert(module, kernel);
            Ok(Module(module))
        })
    }

    fn unload_module(&self, module: Module) {
        let _ = self.release("cuModuleUnload", |state| {
            state.modules.remove(&module.0);
            state.functions.retain(|_, of| *of != module.0);
            Ok(())
        });
    }

    fn function(&self, module: Module, name: &CStr) -> Result<(Function, usize)> {
        self.with("cuModuleGetFunction", |state| {
            let kernel = state.modules.get(&module.0);
            let is_there = kernel.is_some_and(|kernel| kernel.has(name.to_bytes()));
            if !is_there {
                return Err(error("cuModuleGetFunction", NOT_FOUND));
            }
            let function = state.fresh();
            state.functions.insert(function, module.0);
            Ok((Function(function), 227 << 10))
        })
    }

    unsafe fn launch(&self, launch: &FunctionLaunch<'_>, stream: Stream) -> Result<()> {
        let launch = State::owned(launch);
        if !is_launchable(&launch) {
            return Err(error("cuLaunchKernel", INVALID_VALUE));
        }
        self.enqueue("cuLaunchKernel", stream, Work::Launch(launch))
    }

    fn create_graph(&self, launches: &[FunctionLaunch<'_>]) -> Result<Graph> {
        self.with("cuGraphInstantiateWithFlags", |state| {
            if state.refuses_graphs {
                return Err(error("cuGraphInstantiateWithFlags", NOT_SUPPORTED));
            }
            let owned: Vec<OwnedLaunch> = launches.iter().map(State::owned).collect();
            if !owned.iter().all(is_launchable) {
                return Err(error("cuGraphAddKernelNode_v2", INVALID_VALUE));
            }
            let exec = state.fresh();
            let nodes = (0..owned.len() as u64).collect();
            state.graphs.insert(exec, owned);
            Ok(Graph {
                template: 0,
                exec,
                nodes,
            })
        })
    }

    fn update_graph(&self, graph: &Graph, node: usize, launch: &FunctionLaunch<'_>) -> Result<()> {
        self.with("cuGraphExecKernelNodeSetParams_v2", |state| {
            let nodes = state.graphs.get_mut(&graph.exec);
            let node = nodes.and_then(|nodes| nodes.get_mut(node));
            let node = node.filter(|node| node.function == launch.function);
            let wrong = || error("cuGraphExecKernelNodeSetParams_v2", INVALID_VALUE);
            *node.ok_or_else(wrong)? = State::owned(launch);
            Ok(())
        })
    }

    unsafe fn launch_graph(&self, graph: &Graph, stream: Stream) -> Result<()> {
        let launches = self.with("cuGraphLaunch", |state| {
            let launches = state.graphs.get(&graph.exec).cloned();
            launches.ok_or_else(|| error("cuGraphLaunch", INVALID_VALUE))
        })?;
        for launch in launches {
            self.enqueue("cuGraphLaunch", stream, Work::Launch(launch))?;
        }
        Ok(())
    }

    fn destroy_graph(&self, graph: Graph) {
        let _ = self.release("cuGraphExecDestroy", |state| {
            state.graphs.remove(&graph.exec);
            Ok(())
        });
    }

    fn make_current(&self) -> Result<()> {
        self.with("cuCtxSetCurrent", |_| Ok(()))
    }
}
