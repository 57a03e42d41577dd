//! The CPU executor: loads object code as callable kernels, without LLVM.
//!
//! A compiler provides relocatable ELF objects, in a `kiln_backend::Artifact` or directly. [`LoadedCode`] copies one
//! into memory, applies its relocations and makes it executable. The code may call three functions, `memcpy`, `memmove`
//! and `memset`. Its memory is never writable and executable at once, and is freed once no call can be running in it.
//! [`NativeExecutor`] launches kernels on host memory, distributes their tasks over the runtime's threads, and runs the
//! builtins.
//!
//! Loaded code is trusted. Damaged bytes are rejected, but whether an object came from the compiler is not checked
//! here: the store that holds it verifies its digest.
//!
//! ```
//! use kiln_backend::{Builtin, BuiltinOperand, KernelExecutor, MemorySlice};
//! use kiln_native::NativeExecutor;
//! use kiln_tensor::{DType, Tensor};
//!
//! let cpu = NativeExecutor::new();
//! let x = cpu.upload(&Tensor::from_slice(&[4], &[0.0f32, 3.0, 0.0, 5.0])?)?;
//! let (indices, count) = (cpu.alloc(32)?, cpu.alloc(8)?);
//! let all = |memory, bytes| MemorySlice { memory, offset: 0, bytes };
//! let of = |dtype, shape| BuiltinOperand { dtype, shape };
//! let mut execution = cpu.begin();
//! // SAFETY: the memory is used by nothing else.
//! let ran = unsafe { execution.run_builtin(
//!     &Builtin::NonZero,
//!     &[(all(&x, 16), of(DType::F32, &[4]))],
//!     &[(all(&indices, 32), of(DType::I64, &[1, 4])), (all(&count, 8), of(DType::I64, &[]))],
//! ) };
//! ran?;
//! assert_eq!(execution.finish()?, None);
//! assert_eq!(cpu.download(&count, 0, DType::I64, &[])?.to_vec::<i64>()?, [2]);
//! let indices = cpu.download(&indices, 0, DType::I64, &[1, 4])?;
//! assert_eq!(indices.to_vec::<i64>()?, [1, 3, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("objects are little-endian: big-endian hosts are not supported");

mod error;

mod host_functions;
mod link;
mod memory;
mod object;
mod relocate;

mod code;
#[cfg(feature = "guard-pages")]
pub mod guard;
mod launch_arguments;

mod builtin;
mod executor;

pub use code::{LoadedCode, check_object};
pub use error::NativeError;
pub use executor::NativeExecutor;
pub use launch_arguments::LaunchArguments;

#[cfg(test)]
mod tests;
