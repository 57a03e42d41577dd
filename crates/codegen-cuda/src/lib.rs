//! The CUDA backend: generates CUDA C from kernels, compiles it to cubins with NVRTC, and launches the cubins.
//!
//! An artifact's code is a [`DeviceCode`]: a cubin, and one [`Entry`] per phase, which is a function of the cubin or a
//! cuBLASLt call.

#![deny(unsafe_code)]

mod arch;
mod builtin;
mod compiler;
mod container;
mod error;
pub mod find;
mod generate;
mod nvrtc;

pub mod driver;
mod executor;

pub use arch::CudaArch;
#[doc(hidden)]
pub use builtin::DeviceBuiltin;
pub use compiler::{CudaCompiler, HostSource};
pub use container::{
    CONTAINER_VERSION, ContainerError, DeviceCode, Entry, FAULT_DIVISION, FAULT_INDEX, FIXED_WORDS,
    GemmEntry, GemmEpilogue, GemmOperand, MAX_PARAMETER_BYTES,
};
pub use error::CudaError;
pub use executor::{CudaExecutor, CudaStatistics, DeviceError, arch_of};
