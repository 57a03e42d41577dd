//! What the device is.

use anyhow::Error;
use kiln::internals::backend::KernelCompiler;
use kiln::internals::codegen_cuda::driver::RealDriver;
use kiln::internals::codegen_cuda::find::{CudaLibrary, open};
use kiln::internals::codegen_cuda::{CudaCompiler, arch_of};

/// Prints the device, and the compiler for it.
pub(crate) fn run() -> Result<(), Error> {
    let info = RealDriver::info(0)?;
    let arch = arch_of(&info)?;
    let path = |library| match open(library) {
        Ok(found) => found.path.display().to_string(),
        Err(error) => error.to_string(),
    };
    let compiler = CudaCompiler::new(arch).map(|compiler| compiler.version());
    let line = serde_json::json!({
        "device": info.name,
        "capability": format!("{}.{}", info.capability.0, info.capability.1),
        "arch": arch.name(),
        "multiprocessors": info.multiprocessors,
        "l2_bytes": info.l2_bytes,
        "max_shared_bytes": info.max_shared_bytes,
        "memory_bytes": info.memory_bytes,
        "driver": format!("{}.{}", info.driver_version.0, info.driver_version.1),
        "compiler": compiler.map_err(|error| error.to_string()).unwrap_or_else(|error| error),
        "driver_file": path(CudaLibrary::Driver),
        "nvrtc_file": path(CudaLibrary::Nvrtc),
        "cublaslt_file": path(CudaLibrary::CublasLt),
    });
    println!("{line}");
    Ok(())
}
