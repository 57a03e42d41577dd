//! Host tensors: typed, strided, cheaply cloned arrays in host memory.
//!
//! A [`Tensor`] has a dtype, a shape, strides and a reference to shared storage. Views (transpose, slice, broadcast,
//! reverse) share that storage; a write to shared storage copies it first. Storage is owned, aligned memory, or
//! [`Foreign`] memory that is returned to its owner through a release hook; elements may also be
//! [elsewhere](Tensor::resident) until the host reads them. Every size is checked before memory is allocated, and a
//! failed allocation is an error, not an abort.
//!
//! This crate holds data and moves it around. It does no arithmetic: that is `kiln-scalar`
//! (one element) and `kiln-interpreter` (whole tensors).
//!
//! ```
//! use kiln_tensor::{DType, Tensor};
//!
//! let x = Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let columns = x.transpose(&[1, 0])?; // a view: nothing is copied
//! assert_eq!(columns.dtype(), DType::F32);
//! assert_eq!(columns.shape(), [3, 2]);
//! assert_eq!(columns.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
//! assert_eq!(columns.broadcast_to(&[4, 3, 2])?.len(), 24);
//! # Ok::<(), kiln_tensor::TensorError>(())
//! ```
//!
//! # Sizes
//! The product of a shape's non-zero dims, times the element size, is at most `isize::MAX`; a larger shape is rejected even
//! when another dim is zero. So any product of some of a tensor's dims can be computed without a check.

#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("elements are kept in little-endian order: big-endian hosts are not supported");

mod alignment;
mod dtype;
mod element;
mod error;
mod exclusive;
mod layout;
mod offsets;
mod pages;
mod storage;
mod zeroed;

mod tensor;

mod concat;
mod copying;
mod deferred;
mod display;
#[cfg(feature = "fault-injection")]
pub mod fault;
mod foreign;
#[cfg(feature = "ndarray")]
mod interop;
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod numbers;
mod resident;
mod share;
mod views;

pub use alignment::alignment_of;
pub use dtype::DType;
pub use element::Element;
pub use error::TensorError;
pub use exclusive::Exclusive;
pub use foreign::Foreign;
pub use half::{bf16, f16};
pub use layout::{element_count, row_major_strides};
pub use npy::{read_npy, write_npy};
#[cfg(feature = "npz")]
pub use npz::{read_npz, write_npz};
pub use offsets::Offsets;
pub use pages::Pages;
pub use share::Share;
pub use tensor::Tensor;
pub use views::AxisSlice;
pub use zeroed::zeroed_bytes;

#[cfg(test)]
mod tests;
