//! The real driver, through cudarc's bindings.
//!
//! The library is opened when it is first needed, after a check that it is present: without a driver, the result is a
//! typed error. Every call first makes the device's context current, so calls can be made from any thread.
#![allow(unsafe_code, reason = "the driver's API is a C library")]

use super::error::check_version;
use super::{
    DeviceInfo, Driver, DriverError, DriverProblem, Event, Function, FunctionLaunch, Graph, Module,
    Result, Stream,
};
use crate::find::{self, CudaLibrary};
use cudarc::driver::sys;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};

/// The oldest driver that has all functions used.
const NEEDED_VERSION: (u32, u32) = (12, 0);

/// The first driver with `cuFuncLoad`.
const LOADS_FUNCTIONS: (u32, u32) = (12, 4);

/// The first driver with `cuEventElapsedTime_v2`.
const COMPARES_EVENTS: (u32, u32) = (12, 8);

/// A device of the driver; its primary context is retained as long as this lives.
#[derive(Debug)]
pub struct RealDriver {
    info: DeviceInfo,
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: the driver's functions may be called from any thread, and the context is a handle.
unsafe impl Send for RealDriver {}
// SAFETY: as above.
unsafe impl Sync for RealDriver {}

/// Checks a result of the driver.
fn check(call: &'static str, result: sys::CUresult) -> Result<()> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut name = null();
    // SAFETY: the pointer is valid for a write; the driver's answer is null or a static string.
    let name = unsafe {
        match sys::cuGetErrorName(result, &raw mut name) {
            sys::CUresult::CUDA_SUCCESS if !name.is_null() => {
                CStr::from_ptr(name).to_string_lossy().into_owned()
            }
            _ => "an unknown error".to_owned(),
        }
    };
    Err(DriverError {
        call,
        code: result as u32,
        name,
    })
}

/// Calls a function of the driver and checks its result.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        check(stringify!($function), sys::$function($($argument),*))
    };
}

/// Whether the driver's library is present, responds, and is new enough: `(major, minor)` of its CUDA version.
fn open() -> std::result::Result<(u32, u32), DriverProblem> {
    let found = find::open(CudaLibrary::Driver);
    // SAFETY: opening the driver's library has no preconditions.
    let is_present = unsafe { sys::is_culib_present() };
    // The loader may find it without our help.
    if !is_present {
        found?;
        return Err(DriverProblem::Call(DriverError {
            call: "dlopen",
            code: 0,
            name: "the driver's library was found, but not under its own name".to_owned(),
        }));
    }
    let mut version: c_int = 0;
    // SAFETY: the pointer is valid for a write.
    unsafe { call!(cuDriverGetVersion(&raw mut version))? };
    let found = check_version(u32::try_from(version).unwrap_or(0), NEEDED_VERSION)?;
    // SAFETY: no preconditions.
    unsafe { call!(cuInit(0))? };
    Ok(found)
}

impl RealDriver {
    /// The number of devices.
    ///
    /// # Errors
    /// If there is no driver, or it is too old or finds no device.
    pub fn count() -> std::result::Result<u32, DriverProblem> {
        open()?;
        let mut count: c_int = 0;
        // SAFETY: the pointer is valid for a write.
        unsafe { call!(cuDeviceGetCount(&raw mut count))? };
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The properties of a device, without making a context.
    ///
    /// # Errors
    /// If there is no driver or no such device.
    pub fn info(ordinal: u32) -> std::result::Result<DeviceInfo, DriverProblem> {
        let driver_version = open()?;
        let device = device(ordinal)?;
        info(ordinal, device, driver_version)
    }

    /// A device.
    ///
    /// # Errors
    /// If there is no driver or no such device, or its context cannot be made.
    pub fn open(ordinal: u32) -> std::result::Result<Self, DriverProblem> {
        let driver_version = open()?;
        let device = device(ordinal)?;
        let info = info(ordinal, device, driver_version)?;
        let mut context = null_mut();
        // SAFETY: the pointer is valid for a write, and the device is the driver's.
        unsafe { call!(cuDevicePrimaryCtxRetain(&raw mut context, device))? };
        Ok(Self {
            info,
            device,
            context,
        })
    }

    fn current(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { call!(cuCtxSetCurrent(self.context)) }
    }
}

fn device(ordinal: u32) -> std::result::Result<sys::CUdevice, DriverProblem> {
    let mut count: c_int = 0;
    // SAFETY: the pointer is valid for a write.
    unsafe { call!(cuDeviceGetCount(&raw mut count))? };
    let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    if number >= count {
        let found = match count {
            0 => "none".to_owned(),
            1 => "one device, 0".to_owned(),
            count => format!("devices 0 to {}", count - 1),
        };
        return Err(DriverProblem::NoDevice { ordinal, found });
    }
    let mut device = 0;
    // SAFETY: the pointer is valid for a write.
    unsafe { call!(cuDeviceGet(&raw mut device, number))? };
    Ok(device)
}

fn info(
    ordinal: u32,
    device: sys::CUdevice,
    driver_version: (u32, u32),
) -> std::result::Result<DeviceInfo, DriverProblem> {
    use sys::CUdevice_attribute as Attribute;
    let attribute = |attribute| {
        let mut value: c_int = 0;
        // SAFETY: the pointer is valid for a write, and the device is the driver's.
        unsafe { call!(cuDeviceGetAttribute(&raw mut value, attribute, device))? };
        Ok::<_, DriverError>(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0; 256];
    let mut memory_bytes = 0;
    // SAFETY: the pointers are valid for writes of these lengths.
    unsafe {
        call!(cuDeviceGetName(
            name.as_mut_ptr(),
            name.len() as c_int,
            device
        ))?;
        call!(cuDeviceTotalMem_v2(&raw mut memory_bytes, device))?;
    }
    let name: Vec<u8> = name
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    Ok(DeviceInfo {
        ordinal,
        name: String::from_utf8_lossy(&name).into_owned(),
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        max_shared_bytes: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )? as usize,
        memory_bytes,
        driver_version,
    })
}

impl Drop for RealDriver {
    fn drop(&mut self) {
        // SAFETY: it was retained once, in `open`. An error at this point cannot be reported.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn stream(stream: Stream) -> sys::CUstream {
    stream.0 as usize as sys::CUstream
}

fn event(event: Event) -> sys::CUevent {
    event.0 as usize as sys::CUevent
}

/// A node's parameters: `arguments` points to the launch's words.
fn node_params(
    launch: &FunctionLaunch<'_>,
    arguments: &mut [*mut c_void; 1],
) -> sys::CUDA_KERNEL_NODE_PARAMS {
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: launch.function.0 as usize as sys::CUfunction,
        gridDimX: launch.blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: launch.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: launch.shared_bytes,
        kernelParams: arguments.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

fn arguments(launch: &FunctionLaunch<'_>) -> [*mut c_void; 1] {
    // The driver only reads them.
    [launch.words.as_ptr().cast_mut().cast()]
}

impl Driver for RealDriver {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory_info(&self) -> Result<(usize, usize)> {
        self.current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for writes.
        unsafe { call!(cuMemGetInfo_v2(&raw mut free, &raw mut total))? };
        Ok((free, total))
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.current()?;
        let mut address = 0;
        // SAFETY: the pointer is valid for a write.
        unsafe { call!(cuMemAlloc_v2(&raw mut address, bytes))? };
        Ok(address)
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.current()?;
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemFree_v2(address)) }
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<(NonNull<u8>, u64)> {
        self.current()?;
        let (mut start, mut address) = (null_mut(), 0);
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the pointers are valid for writes, and the memory was just made.
        unsafe {
            call!(cuMemHostAlloc(&raw mut start, bytes, flags))?;
            call!(cuMemHostGetDevicePointer_v2(&raw mut address, start, 0))?;
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| DriverError {
            call: "cuMemHostAlloc",
            code: super::error::OUT_OF_MEMORY,
            name: "no memory".to_owned(),
        })?;
        // SAFETY: it has this many bytes, which nothing else has yet.
        unsafe { start.write_bytes(0, bytes) };
        Ok((start, address))
    }

    unsafe fn free_pinned(&self, start: NonNull<u8>) -> Result<()> {
        self.current()?;
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemFreeHost(start.as_ptr().cast())) }
    }

    fn create_stream(&self) -> Result<Stream> {
        self.current()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is valid for a write.
        unsafe { call!(cuStreamCreate(&raw mut stream, flags))? };
        Ok(Stream(stream as usize as u64))
    }

    fn destroy_stream(&self, handle: Stream) {
        if self.current().is_ok() {
            // SAFETY: the stream is one of this context. An error at this point cannot be reported.
            let _ = unsafe { sys::cuStreamDestroy_v2(stream(handle)) };
        }
    }

    fn synchronize(&self, handle: Stream) -> Result<()> {
        self.current()?;
        // SAFETY: the stream is one of this context.
        unsafe { call!(cuStreamSynchronize(stream(handle))) }
    }

    fn is_done(&self, handle: Stream) -> Result<bool> {
        self.current()?;
        // SAFETY: the stream is one of this context.
        match unsafe { sys::cuStreamQuery(stream(handle)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    fn create_event(&self, is_timed: bool) -> Result<Event> {
        self.current()?;
        let mut event = null_mut();
        let flags = match is_timed {
            true => sys::CUevent_flags::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        // SAFETY: the pointer is valid for a write.
        unsafe { call!(cuEventCreate(&raw mut event, flags as u32))? };
        Ok(Event(event as usize as u64))
    }

    fn destroy_event(&self, handle: Event) {
        if self.current().is_ok() {
            // SAFETY: the event is one of this context. An error at this point cannot be reported.
            let _ = unsafe { sys::cuEventDestroy_v2(event(handle)) };
        }
    }

    fn record(&self, handle: Event, on: Stream) -> Result<()> {
        self.current()?;
        // SAFETY: both are of this context.
        unsafe { call!(cuEventRecord(event(handle), stream(on))) }
    }

    fn wait(&self, on: Stream, handle: Event) -> Result<()> {
        self.current()?;
        // SAFETY: both are of this context.
        unsafe { call!(cuStreamWaitEvent(stream(on), event(handle), 0)) }
    }

    fn synchronize_event(&self, handle: Event) -> Result<()> {
        self.current()?;
        // SAFETY: the event is one of this context.
        unsafe { call!(cuEventSynchronize(event(handle))) }
    }

    fn elapsed(&self, first: Event, second: Event) -> Result<u64> {
        self.current()?;
        if self.info.driver_version < COMPARES_EVENTS {
            return Err(DriverError {
                call: "cuEventElapsedTime_v2",
                code: sys::CUresult::CUDA_ERROR_NOT_SUPPORTED as u32,
                name: "not in this driver".to_owned(),
            });
        }
        let mut milliseconds = 0.0f32;
        // SAFETY: the pointer is valid for a write, and both events are of this context.
        unsafe {
            call!(cuEventElapsedTime_v2(
                &raw mut milliseconds,
                event(first),
                event(second)
            ))?;
        }
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }

    unsafe fn copy_in(&self, to: u64, from: NonNull<u8>, bytes: usize, on: Stream) -> Result<()> {
        self.current()?;
        let from = from.as_ptr().cast();
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemcpyHtoDAsync_v2(to, from, bytes, stream(on))) }
    }

    unsafe fn copy_out(&self, to: NonNull<u8>, from: u64, bytes: usize, on: Stream) -> Result<()> {
        self.current()?;
        let to = to.as_ptr().cast();
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemcpyDtoHAsync_v2(to, from, bytes, stream(on))) }
    }

    unsafe fn copy_within(&self, to: u64, from: u64, bytes: usize, on: Stream) -> Result<()> {
        self.current()?;
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemcpyDtoDAsync_v2(to, from, bytes, stream(on))) }
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize, on: Stream) -> Result<()> {
        self.current()?;
        // SAFETY: as the caller promises.
        unsafe { call!(cuMemsetD8Async(to, byte, bytes, stream(on))) }
    }

    unsafe fn load_module(&self, cubin: &[u8]) -> Result<Module> {
        self.current()?;
        let mut module = null_mut();
        // SAFETY: the pointer is valid for a write; the cubin is complete, as the caller promises: its header has its length.
        unsafe { call!(cuModuleLoadData(&raw mut module, cubin.as_ptr().cast()))? };
        Ok(Module(module as usize as u64))
    }

    fn unload_module(&self, module: Module) {
        if self.current().is_ok() {
            // SAFETY: the module is one of this context. An error at this point cannot be reported.
            let _ = unsafe { sys::cuModuleUnload(module.0 as usize as sys::CUmodule) };
        }
    }

    fn function(&self, module: Module, name: &CStr) -> Result<(Function, usize)> {
        use sys::CUfunction_attribute as Attribute;
        self.current()?;
        let module = module.0 as usize as sys::CUmodule;
        let (mut function, mut fixed) = (null_mut(), 0);
        // SAFETY: the pointers are valid for writes, and the module and the function are of this context.
        unsafe {
            call!(cuModuleGetFunction(
                &raw mut function,
                module,
                name.as_ptr()
            ))?;
            if self.info.driver_version >= LOADS_FUNCTIONS {
                call!(cuFuncLoad(function))?;
            }
            let bytes = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            call!(cuFuncGetAttribute(&raw mut fixed, bytes, function))?;
        }
        let fixed = usize::try_from(fixed).unwrap_or(0);
        let dynamic = self.info.max_shared_bytes.saturating_sub(fixed);
        let limit = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is of this context.
        unsafe { call!(cuFuncSetAttribute(function, limit, dynamic as c_int))? };
        Ok((Function(function as usize as u64), dynamic))
    }

    unsafe fn launch(&self, launch: &FunctionLaunch<'_>, on: Stream) -> Result<()> {
        self.current()?;
        let mut arguments = arguments(launch);
        // SAFETY: as the caller promises.
        unsafe {
            call!(cuLaunchKernel(
                launch.function.0 as usize as sys::CUfunction,
                launch.blocks,
                1,
                1,
                launch.threads,
                1,
                1,
                launch.shared_bytes,
                stream(on),
                arguments.as_mut_ptr(),
                null_mut(),
            ))
        }
    }

    fn create_graph(&self, launches: &[FunctionLaunch<'_>]) -> Result<Graph> {
        self.current()?;
        let mut template = null_mut();
        // SAFETY: the pointer is valid for a write.
        unsafe { call!(cuGraphCreate(&raw mut template, 0))? };
        match instantiate(template, launches) {
            Ok((exec, nodes)) => Ok(Graph {
                template: template as usize as u64,
                exec: exec as usize as u64,
                nodes,
            }),
            Err(error) => {
                // SAFETY: it was just made, and nothing has it.
                let _ = unsafe { sys::cuGraphDestroy(template) };
                Err(error)
            }
        }
    }

    fn update_graph(&self, graph: &Graph, node: usize, launch: &FunctionLaunch<'_>) -> Result<()> {
        self.current()?;
        let Some(&node) = graph.nodes.get(node) else {
            return Err(DriverError {
                call: "cuGraphExecKernelNodeSetParams_v2",
                code: sys::CUresult::CUDA_ERROR_INVALID_VALUE as u32,
                name: "a node that the graph does not have".to_owned(),
            });
        };
        let mut arguments = arguments(launch);
        let params = node_params(launch, &mut arguments);
        // SAFETY: the node is one of the graph's, and the parameters are only read during the call.
        unsafe {
            call!(cuGraphExecKernelNodeSetParams_v2(
                graph.exec as usize as sys::CUgraphExec,
                node as usize as sys::CUgraphNode,
                &raw const params
            ))
        }
    }

    unsafe fn launch_graph(&self, graph: &Graph, on: Stream) -> Result<()> {
        self.current()?;
        let exec = graph.exec as usize as sys::CUgraphExec;
        // SAFETY: as the caller promises.
        unsafe { call!(cuGraphLaunch(exec, stream(on))) }
    }

    fn destroy_graph(&self, graph: Graph) {
        if self.current().is_ok() {
            // SAFETY: both are of this context. An error at this point cannot be reported.
            unsafe {
                let _ = sys::cuGraphExecDestroy(graph.exec as usize as sys::CUgraphExec);
                let _ = sys::cuGraphDestroy(graph.template as usize as sys::CUgraph);
            }
        }
    }

    fn make_current(&self) -> Result<()> {
        self.current()
    }
}

/// Adds launches to a graph, each after the previous one, and instantiates it.
fn instantiate(
    template: sys::CUgraph,
    launches: &[FunctionLaunch<'_>],
) -> Result<(sys::CUgraphExec, Vec<u64>)> {
    let mut nodes = Vec::with_capacity(launches.len());
    let mut before: Option<sys::CUgraphNode> = None;
    for launch in launches {
        let mut arguments = arguments(launch);
        let params = node_params(launch, &mut arguments);
        let mut node = null_mut();
        let (depends, count) = match &before {
            Some(before) => (std::ptr::from_ref(before), 1),
            None => (null(), 0),
        };
        // SAFETY: the pointers are valid, and the driver copies the parameters during the call.
        unsafe {
            call!(cuGraphAddKernelNode_v2(
                &raw mut node,
                template,
                depends,
                count,
                &raw const params
            ))?;
        }
        nodes.push(node as usize as u64);
        before = Some(node);
    }
    let mut exec = null_mut();
    // SAFETY: the pointer is valid for a write.
    unsafe { call!(cuGraphInstantiateWithFlags(&raw mut exec, template, 0))? };
    Ok((exec, nodes))
}
