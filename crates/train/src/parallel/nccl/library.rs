//! NCCL's functions, looked up by name in the library, which is opened when it is first needed.
//!
//! They are declared here instead of using `cudarc`, which does not look for `libnccl.so.2`, the name under which the
//! library is installed, panics if a function is missing, and returns enums, which may lack the results of a newer
//! library.
#![allow(unsafe_code, reason = "NCCL is a C library")]

use super::super::CollectiveError;
use super::calls::{Communicator, Element, Result};
use super::id::{BYTES, UniqueId};
use kiln::internals::codegen_cuda::find::{self, CudaLibrary};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

/// The first version for CUDA 12, which the driver must support as well.
const NEEDED_VERSION: (c_int, c_int) = (2, 16);

// These are from `nccl.h`, and have not changed since NCCL 2.0.
const SUCCESS: c_int = 0;
const UINT8: c_int = 1;
const FLOAT32: c_int = 7;
const FLOAT64: c_int = 8;
const SUM: c_int = 0;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawId([u8; BYTES]);

/// `ncclComm_t`.
type Handle = *mut c_void;
/// `cudaStream_t`, which is the driver's `CUstream`.
type Stream = *mut c_void;

/// Declares the table of functions, and how it is filled.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, for as long as the library is open.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &libloading::Library) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: this is the function's type in `nccl.h`.
                        $field: *unsafe { library.get($name.as_bytes()) }.map_err(|_| $name)?,
                    )*
                })
            }
        }
    };
}

functions! {
    version = "ncclGetVersion": fn(*mut c_int) -> c_int;
    unique_id = "ncclGetUniqueId": fn(*mut RawId) -> c_int;
    connect = "ncclCommInitRank": fn(*mut Handle, c_int, RawId, c_int) -> c_int;
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Stream) -> c_int;
    broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Stream) -> c_int;
    asynchronous_error = "ncclCommGetAsyncError": fn(Handle, *mut c_int) -> c_int;
    abort = "ncclCommAbort": fn(Handle) -> c_int;
    destroy = "ncclCommDestroy": fn(Handle) -> c_int;
    error_text = "ncclGetErrorString": fn(c_int) -> *const c_char;
    last_error = "ncclGetLastError": fn(Handle) -> *const c_char;
}

/// The library.
pub(super) struct Library {
    functions: Functions,
    /// Keeps the functions valid.
    _library: libloading::Library,
}

impl Library {
    /// Finds the library and opens it.
    ///
    /// # Errors
    /// If it is not found, in which case the searched places are named, or is not usable.
    pub(super) fn open() -> Result<Self> {
        let found = find::open(CudaLibrary::Nccl);
        let found = found.map_err(|error| CollectiveError::new(error.to_string()))?;
        Self::load(&found.path)
    }

    /// Opens a file.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let unusable = |found: String| {
            let variable = CudaLibrary::Nccl.variable();
            let (major, minor) = NEEDED_VERSION;
            CollectiveError::new(format!(
                "expected NCCL {major}.{minor} or later, found {found} ({}); update it, or set {variable} to another",
                path.display()
            ))
        };
        // SAFETY: this is NVIDIA's library, in a place that the user or the system vouches for; its initialisers need nothing
        // from us.
        let library = unsafe { libloading::Library::new(path) }
            .map_err(|error| unusable(format!("a file that cannot be opened: {error}")))?;
        let functions = Functions::of(&library)
            .map_err(|name| unusable(format!("a library without {name}")))?;
        let library = Self {
            functions,
            _library: library,
        };
        let found = library.version()?;
        match found < NEEDED_VERSION {
            true => Err(unusable(format!("{}.{}", found.0, found.1))),
            false => Ok(library),
        }
    }

    /// The version: major, minor.
    fn version(&self) -> Result<(c_int, c_int)> {
        let mut number = 0;
        // SAFETY: the pointer is valid for a write.
        let result = unsafe { (self.functions.version)(&raw mut number) };
        self.check("ncclGetVersion", result)?;
        // Up to 2.8, the version had three digits after the major version.
        Ok(match number < 10_000 {
            true => (number / 1000, number % 1000 / 100),
            false => (number / 10_000, number % 10_000 / 100),
        })
    }

    /// The id of a new group.
    pub(super) fn unique_id(&self) -> Result<UniqueId> {
        let mut id = RawId([0; BYTES]);
        // SAFETY: the pointer is valid for a write.
        let result = unsafe { (self.functions.unique_id)(&raw mut id) };
        self.check("ncclGetUniqueId", result)?;
        Ok(UniqueId::from_bytes(id.0))
    }

    /// Connects a rank that has the current device with the others.
    pub(super) fn connect(&self, id: &UniqueId, rank: usize, size: usize) -> Result<Communicator> {
        let count = |number: usize| {
            c_int::try_from(number).map_err(|_| {
                CollectiveError::new(format!(
                    "expected at most {} ranks, found {number}",
                    c_int::MAX
                ))
            })
        };
        let (rank, size) = (count(rank)?, count(size)?);
        let mut handle: Handle = std::ptr::null_mut();
        let id = RawId(*id.as_bytes());
        // SAFETY: the pointer is valid for a write.
        let result = unsafe { (self.functions.connect)(&raw mut handle, size, id, rank) };
        self.check("ncclCommInitRank", result)?;
        Ok(Communicator(handle as usize))
    }

    /// Submits a sum.
    ///
    /// # Safety
    /// As for `Calls::all_reduce`; the stream is one of the current device.
    pub(super) unsafe fn all_reduce(
        &self,
        communicator: Communicator,
        address: u64,
        count: usize,
        element: Element,
        stream: u64,
    ) -> Result<()> {
        let place = address as usize as *mut c_void;
        let element = match element {
            Element::F32 => FLOAT32,
            Element::F64 => FLOAT64,
        };
        let (handle, stream) = (handle(communicator), stream as usize as Stream);
        // SAFETY: as the caller promises.
        let result = unsafe {
            (self.functions.all_reduce)(place, place, count, element, SUM, handle, stream)
        };
        self.check("ncclAllReduce", result)
    }

    /// Submits a copy of a rank's bytes to all ranks.
    ///
    /// # Safety
    /// As [`all_reduce`](Self::all_reduce).
    pub(super) unsafe fn broadcast(
        &self,
        communicator: Communicator,
        address: u64,
        bytes: usize,
        root: usize,
        stream: u64,
    ) -> Result<()> {
        let place = address as usize as *mut c_void;
        let root = c_int::try_from(root).unwrap_or(c_int::MAX);
        let (handle, stream) = (handle(communicator), stream as usize as Stream);
        // SAFETY: as the caller promises.
        let result =
            unsafe { (self.functions.broadcast)(place, place, bytes, UINT8, root, handle, stream) };
        self.check("ncclBroadcast", result)
    }

    /// The error that submitted work encountered.
    ///
    /// # Safety
    /// The communicator is live.
    pub(super) unsafe fn asynchronous_error(&self, communicator: Communicator) -> Result<()> {
        let mut error = SUCCESS;
        // SAFETY: the pointer is valid for a write, and the communicator is live.
        let result =
            unsafe { (self.functions.asynchronous_error)(handle(communicator), &raw mut error) };
        self.check("ncclCommGetAsyncError", result)?;
        self.check("an operation on the GPU", error)
    }

    /// Ends a communicator and its work.
    ///
    /// # Safety
    /// It is live, and is not used afterwards.
    pub(super) unsafe fn abort(&self, communicator: Communicator) {
        // SAFETY: as the caller promises. An error at this point follows another, which is reported.
        let _ = unsafe { (self.functions.abort)(handle(communicator)) };
    }

    /// Ends a communicator whose work is done.
    ///
    /// # Safety
    /// As [`abort`](Self::abort).
    pub(super) unsafe fn destroy(&self, communicator: Communicator) {
        // SAFETY: as the caller promises. An error at this point cannot be reported.
        let _ = unsafe { (self.functions.destroy)(handle(communicator)) };
    }

    /// Checks a result of the library.
    fn check(&self, call: &str, result: c_int) -> Result<()> {
        if result == SUCCESS {
            return Ok(());
        }
        // SAFETY: both functions take any number, or no communicator, and return null or a string that is valid until the
        // next call on this thread.
        let texts = unsafe {
            let texts = [
                (self.functions.error_text)(result),
                (self.functions.last_error)(std::ptr::null_mut()),
            ];
            texts.map(|text| match text.is_null() {
                true => String::new(),
                false => CStr::from_ptr(text).to_string_lossy().trim().to_owned(),
            })
        };
        let texts: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        Err(CollectiveError::new(format!(
            "expected {call} to succeed, found NCCL's error {result} ({}); NCCL_DEBUG=WARN makes it say more",
            texts.join(": ")
        )))
    }
}

fn handle(communicator: Communicator) -> Handle {
    communicator.0 as Handle
}
