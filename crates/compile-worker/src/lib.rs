//! A [`KernelCompiler`](kiln_backend::KernelCompiler) whose work is done in another process.
//!
//! LLVM can abort, exit, overflow its stack, exhaust memory or never return, and nothing in its process can stop it.
//! [`WorkerCompiler`] therefore sends a kernel's text, the schedule and the target to a worker, an executed helper process,
//! and receives the artifact. Whatever happens to the worker is a [`WorkerError`] of that one kernel.
//!
//! - `client`, `remembered`, `pool`, `process`: the parent's side. Workers are started ahead, reused for many compiles, killed when a
//!   compile exceeds its time, and replaced when they die.
//! - `serve`, `confine`, `descriptors`: the worker's side. It limits itself before it reads anything.
//! - `frame`, `message`: the protocol between both sides.
//! - [`CompileLimits`]: the limits of one compile.
//!
//! A program serves as its own worker when it begins with [`main_if_worker`].
//!
//! *Invariants.* The parent never runs the inner compiler's `compile` or `listing`. A worker ends with its parent, with the
//! thread that started it and with its pool, whatever it is doing. A forked child starts its own workers and never writes
//! to those of its parent.

#![deny(unsafe_code)]

mod backoff;
#[allow(unsafe_code, reason = "what workers send is vouched for here")]
mod client;
mod confine;
#[allow(unsafe_code, reason = "closing descriptors that no value owns")]
mod descriptors;
mod error;
mod frame;
mod limits;
mod message;
mod pool;
mod process;
#[allow(unsafe_code, reason = "naming a program is vouching for it")]
mod program;
mod remembered;
mod serve;

pub use client::WorkerCompiler;
pub use error::WorkerError;
pub use limits::CompileLimits;
pub use program::WorkerProgram;
pub use serve::{is_worker_program, main_if_worker, serve};
