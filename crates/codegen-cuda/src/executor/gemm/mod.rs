//! Matrix products with cuBLASLt: [`Products`] opens the library and remembers an algorithm per problem.
//!
//! All library state is behind one lock, which is held while a product is submitted, not while it runs. A row-major
//! product `D = A * B` is the column-major `D' = B' * A'`, so the operands are swapped.
#![allow(unsafe_code, reason = "cuBLASLt is a C library")]

mod plan;
mod problem;

use super::context::Context;
use super::error::DeviceError;
use super::kernel::CudaKernel;
use crate::container::{GemmEntry, GemmEpilogue};
use crate::driver::{DriverError, Stream};
use crate::find::{self, CudaLibrary};
use cudarc::cublaslt::{result, sys};
use kiln_fork_lock::ForkLock;
use plan::Plan;
use problem::Problem;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of workspace of a stream, as NVIDIA recommends for Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;

/// The maximum number of remembered problems.
const MAX_PLANS: usize = 1024;

/// Added to the library's error numbers, to distinguish them from the driver's.
const LIBRARY_CODES: u32 = 100_000;

/// The library, opened when a kernel first needs it.
#[derive(Default)]
pub(crate) struct Products(ForkLock<Option<Library>>);

struct Library {
    context: Arc<Context>,
    handle: sys::cublasLtHandle_t,
    plans: HashMap<Problem, Plan>,
    /// The workspace of each stream.
    workspaces: HashMap<Stream, u64>,
}

// SAFETY: the handle may be used from any thread, one at a time.
unsafe impl Send for Library {}

/// The buffer of an epilogue's bias.
pub(crate) fn bias_of(epilogue: GemmEpilogue) -> Option<usize> {
    match epilogue {
        GemmEpilogue::Bias { buffer }
        | GemmEpilogue::BiasRelu { buffer }
        | GemmEpilogue::BiasGeluTanh { buffer } => Some(buffer),
        GemmEpilogue::None | GemmEpilogue::Relu | GemmEpilogue::GeluTanh => None,
    }
}

/// The error of a call of the library.
fn failed(context: &Context, call: &'static str, error: result::CublasError) -> DeviceError {
    context.failed(DriverError {
        call,
        code: LIBRARY_CODES + error.0 as u32,
        name: format!("{:?}", error.0),
    })
}

impl Products {
    /// Opens the library.
    ///
    /// # Errors
    /// If it is not found.
    pub(crate) fn open(&self, context: &Arc<Context>) -> Result<(), DeviceError> {
        let mut library = self.0.lock();
        if library.is_some() {
            return Ok(());
        }
        let found = find::open(CudaLibrary::CublasLt);
        // SAFETY: opening the library has no preconditions. The loader may know it without our help.
        if !unsafe { sys::is_culib_present() } {
            found?;
            return Err(DeviceError::foreign("cuBLASLt"));
        }
        context.done(context.driver().make_current())?;
        let handle = result::create_handle();
        let handle = handle.map_err(|error| failed(context, "cublasLtCreate", error))?;
        *library = Some(Library {
            context: Arc::clone(context),
            handle,
            plans: HashMap::new(),
            workspaces: HashMap::new(),
        });
        Ok(())
    }

    /// Submits a product. `words` is the parameter of the launch to which it belongs.
    ///
    /// # Safety
    /// As for [`Driver::launch`](crate::driver::Driver::launch).
    pub(crate) unsafe fn run(
        &self,
        context: &Arc<Context>,
        gemm: &GemmEntry,
        words: &[u64],
        kernel: &CudaKernel,
        stream: Stream,
    ) -> Result<(), DeviceError> {
        let Some((problem, places)) = Problem::of(gemm, words, &kernel.artifact)? else {
            return Ok(());
        };
        self.open(context)?;
        let mut library = self.0.lock();
        let Some(library) = &mut *library else {
            return Err(DeviceError::foreign("cuBLASLt"));
        };
        let workspace = library.workspace(stream)?;
        context.done(context.driver().make_current())?;
        let handle = library.handle;
        if !library.plans.contains_key(&problem) {
            if library.plans.len() >= MAX_PLANS {
                library.plans.clear();
            }
            let plan = Plan::new(handle, &problem, WORKSPACE_BYTES);
            let plan = plan.map_err(|(call, error)| failed(context, call, error))?;
            library.plans.insert(problem.clone(), plan);
        }
        let Some(plan) = library.plans.get_mut(&problem) else {
            return Err(DeviceError::foreign("a plan of a product"));
        };
        // SAFETY: as the caller promises; the workspace is the stream's.
        let ran = unsafe {
            plan.run(
                handle,
                &problem,
                &places,
                (workspace as usize as *mut c_void, WORKSPACE_BYTES),
                context.driver().raw_stream(stream) as usize as sys::cudaStream_t,
            )
        };
        ran.map_err(|(call, error)| failed(context, call, error))
    }
}

impl Library {
    /// The address of a stream's workspace.
    fn workspace(&mut self, stream: Stream) -> Result<u64, DeviceError> {
        if let Some(&workspace) = self.workspaces.get(&stream) {
            return Ok(workspace);
        }
        let made = self.context.driver().alloc(WORKSPACE_BYTES);
        let made = made.map_err(|error| self.context.no_memory(error, WORKSPACE_BYTES))?;
        self.workspaces.insert(stream, made);
        Ok(made)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.plans.clear();
        let driver = self.context.driver();
        if driver.make_current().is_ok() {
            // SAFETY: the handle is destroyed once. An error at this point cannot be reported.
            let _ = unsafe { result::destroy_handle(self.handle) };
        }
        for &workspace in self.workspaces.values() {
            // SAFETY: executions hold the executor, and thus this, until their work is done.
            let _ = unsafe { driver.free(workspace) };
        }
    }
}
