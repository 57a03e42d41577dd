//! Kernels under test: generated, run on a device, and compared with the kernel evaluator.
//!
//! A compiler and a device come in as the traits of `kiln_kernel`, so nothing here needs LLVM. Launches are deliberately
//! hostile: operands are as misaligned as allowed, between bytes that must stay unchanged, results are poisoned, and
//! [`BackwardPool`] runs tasks one by one from the last to the first. [`run_guarded`] puts operands directly before or
//! after a guard page, so that out-of-bounds reads are detected as well as writes.

mod check;
mod generate;
mod inputs;
mod launch;
mod memory;
mod plainest;
mod pool;
mod sizes;

pub use check::{Checked, Finding, Meaning, Variant, check_kernel, variants, variants_with};
pub use generate::random_kernel;
pub use inputs::{Elements, kernel_tensors};
pub use launch::{LaunchError, run_guarded, run_in, run_in_place, run_kernel};
pub use plainest::Plainest;
pub use pool::BackwardPool;
pub use sizes::{EDGE_SIZES, buffer_shapes, covering_sizes, random_sizes};
