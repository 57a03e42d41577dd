//! Object code to callable kernels, without LLVM.
//!
//! A compiler hands over a relocatable ELF object; [`LoadedCode`] copies it into memory, applies
//! its relocations and makes it executable. The functions it may call are three, `memcpy`,
//! `memmove` and `memset`; its memory is never writable and executable at once, and is freed when
//! nothing can run in it any more.
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("objects are little-endian: big-endian hosts are not supported");

mod code;
mod error;
mod host_functions;
mod launch_arguments;
mod link;
mod memory;
mod object;
mod relocate;

pub use code::LoadedCode;
pub use error::NativeError;
pub use launch_arguments::LaunchArguments;

#[cfg(test)]
mod tests;
