//! The ids of a program's arenas. An id is valid only in the program that created it.

use cranelift_entity::entity_impl;
use serde::{Deserialize, Serialize};

/// A size that the program needs at run time. Prints as `n3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SizeId(u32);
entity_impl!(SizeId, "n");

/// A buffer of one block. Prints as `b3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BufferId(u32);
entity_impl!(BufferId, "b");

/// A kernel of the program; equal kernels share one id. Prints as `kernel3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KernelId(u32);
entity_impl!(KernelId, "kernel");

/// A constant of the program; equal constants share one id. Prints as `constant3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConstantId(u32);
entity_impl!(ConstantId, "constant");

/// A block: the body, or the sub-program of a control step. Prints as `block3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(u32);
entity_impl!(BlockId, "block");
