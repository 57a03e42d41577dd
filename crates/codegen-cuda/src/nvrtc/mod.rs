//! NVRTC, through `cudarc`: compiles CUDA C to cubins.
//!
//! `cudarc` panics where a library or a symbol is missing, so the presence of both is checked first. NVRTC's own cache
//! is disabled: it would use the driver, and hide the assembler's reports.
#![allow(unsafe_code, reason = "the interface of NVRTC")]

use std::ffi::{CStr, CString, c_int, c_void};

use cudarc::nvrtc::{result, sys};
use kiln_fork_lock::{ForkCell, ForkLazy};

use crate::arch::CudaArch;
use crate::error::CudaError;
use crate::find::{CudaLibrary, open};

/// The maximum number of characters of a log that an error includes.
const LOG_LIMIT: usize = 4000;

/// The options of every compile, other than the architecture: part of the compiler's version.
pub(crate) const OPTIONS: [&str; 4] = [
    "--std=c++17",
    "--fmad=false",
    "--disable-warnings",
    "--ptxas-options=-v",
];

/// NVRTC, loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nvrtc {
    major: c_int,
    minor: c_int,
}

/// A compiled source.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// The machine code, or PTX.
    pub(crate) code: Vec<u8>,
    /// The assembler's report: registers, spills, the stack.
    pub(crate) log: String,
}

/// The requested output of a compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A cubin.
    Cubin,
    /// PTX, as text.
    Ptx,
}

/// The signature of `nvrtcSetFlowCallback`, which `cudarc` does not have.
type SetFlowCallback = unsafe extern "C" fn(
    sys::nvrtcProgram,
    unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    *mut c_void,
) -> sys::nvrtcResult;

impl Nvrtc {
    /// The library of this process.
    ///
    /// # Errors
    /// If NVRTC is not found: names every place that was searched.
    pub(crate) fn get() -> Result<Self, CudaError> {
        static LOADED: ForkLazy<ForkCell<Nvrtc>> = ForkLazy::new(ForkCell::new);
        if let Some(loaded) = LOADED.get() {
            return Ok(*loaded);
        }
        let found = open(CudaLibrary::Nvrtc)?;
        // SAFETY: it opens the library by its name, which is open already.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::Nvrtc(format!(
                "{} is open but not found by its name",
                found.path.display()
            )));
        }
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are written.
        let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        checked(status)?;
        Ok(*LOADED.get_or_init(|| Self { major, minor }))
    }

    /// The version: `12.9`.
    pub(crate) fn version(self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    /// The options for an architecture.
    fn options(self, arch: CudaArch) -> Vec<String> {
        let mut options = vec![format!("--gpu-architecture={arch}")];
        options.extend(OPTIONS.map(str::to_owned));
        if (self.major, self.minor) >= (12, 9) {
            options.push("--no-cache".to_owned());
        }
        options
    }

    /// Compiles a source. It ends early once `is_cancelled` returns true, which depends on NVRTC calling it.
    ///
    /// # Errors
    /// If NVRTC rejects the source, fails, or was cancelled. `kernel` is for messages.
    pub(crate) fn compile(
        self,
        kernel: &str,
        source: &str,
        arch: CudaArch,
        output: Output,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Compiled, CudaError> {
        let text = CString::new(source)
            .map_err(|_| CudaError::Nvrtc("the source has a zero byte".to_owned()))?;
        let program = Program(
            result::create_program(&text, Some(c"kernel.cu"))
                .map_err(|error| CudaError::Nvrtc(error.to_string()))?,
        );
        // A thin pointer to the fat pointer, since the payload is one word.
        let payload: &&dyn Fn() -> bool = &is_cancelled;
        program.set_flow_callback(payload);
        let options = self.options(arch);
        // SAFETY: the program is alive.
        let compiled = unsafe { result::compile_program(program.0, &options) };
        let log = program.log();
        match compiled {
            Ok(()) => {}
            Err(_) if is_cancelled() => return Err(CudaError::Cancelled),
            Err(result::NvrtcError(sys::nvrtcResult::NVRTC_ERROR_COMPILATION)) => {
                return Err(CudaError::Rejected {
                    kernel: kernel.to_owned(),
                    arch: arch.to_string(),
                    log: log.chars().take(LOG_LIMIT).collect(),
                });
            }
            Err(error) => return Err(CudaError::Nvrtc(error.to_string())),
        }
        let code = match output {
            Output::Cubin => program.cubin()?,
            Output::Ptx => program.ptx()?,
        };
        Ok(Compiled { code, log })
    }
}

fn checked(status: sys::nvrtcResult) -> Result<(), CudaError> {
    status
        .result()
        .map_err(|error| CudaError::Nvrtc(error.to_string()))
}

/// A program of NVRTC's; destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    /// Registers the cancellation callback for compiles, if this NVRTC supports it. The payload must outlive the
    /// compile.
    fn set_flow_callback(&self, payload: &&dyn Fn() -> bool) {
        unsafe extern "C" fn poll(payload: *mut c_void, _reserved: *mut c_void) -> c_int {
            // SAFETY: it is the reference that `compile` keeps until the compile has ended.
            let is_cancelled = unsafe { &*payload.cast::<&dyn Fn() -> bool>() };
            c_int::from(is_cancelled())
        }
        // SAFETY: the library is loaded, and the symbol has this signature where it exists.
        let symbol = unsafe { sys::culib().get::<SetFlowCallback>(b"nvrtcSetFlowCallback") };
        if let Ok(set) = symbol {
            let payload: *const &dyn Fn() -> bool = payload;
            // SAFETY: the program is alive, and the payload outlives its compile. A failure leaves compiles as they were.
            let _ = unsafe { set(self.0, poll, payload.cast_mut().cast()) };
        }
    }

    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        // SAFETY: characters are bytes.
        let bytes: Vec<u8> = log.iter().map(|&char| char.cast_unsigned()).collect();
        text_of(&bytes)
    }

    fn cubin(&self) -> Result<Vec<u8>, CudaError> {
        let mut bytes = 0;
        // SAFETY: the program is alive and was compiled.
        checked(unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut bytes) })?;
        let mut cubin = vec![0_u8; bytes];
        // SAFETY: there is room for all bytes.
        checked(unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) })?;
        Ok(cubin)
    }

    fn ptx(&self) -> Result<Vec<u8>, CudaError> {
        let mut bytes = 0;
        // SAFETY: the program is alive and was compiled.
        checked(unsafe { sys::nvrtcGetPTXSize(self.0, &raw mut bytes) })?;
        let mut ptx = vec![0_u8; bytes];
        // SAFETY: there is room for all bytes.
        checked(unsafe { sys::nvrtcGetPTX(self.0, ptx.as_mut_ptr().cast()) })?;
        ptx.retain(|&byte| byte != 0);
        Ok(ptx)
    }
}

/// Bytes up to the first zero, as text.
fn text_of(bytes: &[u8]) -> String {
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is alive, and not used again. A failure leaks it.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}
