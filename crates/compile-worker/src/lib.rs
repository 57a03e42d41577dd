//! A [`KernelCompiler`](kiln_backend::KernelCompiler) that compiles in another process.
//!
//! LLVM can abort, exit, overflow its stack, exhaust memory or never return, and its process cannot prevent that.
//! [`WorkerCompiler`] therefore sends a kernel's text, the schedule and the target to a worker, a separate helper
//! process, and receives the artifact. Any failure of the worker is a [`WorkerError`] of that one kernel.
//!
//! - `client`, `remembered`, `pool`, `process`: the parent's side. Workers are started ahead of time, reused for many
//!   compiles, killed when a compile exceeds its time limit, and replaced when they die.
//! - `serve`, `confine`, `descriptors`: the worker's side. It limits itself before it reads anything.
//! - `frame`, `message`: the protocol between the two sides.
//! - [`CompileLimits`]: the limits of one compile.
//!
//! A program that calls [`main_if_worker`] at the start of `main` serves as its own worker.
//!
//! *Invariants.* The parent never runs the inner compiler's `compile` or `listing`. A worker exits when its parent, the
//! thread that started it or its pool ends, whatever it is doing at the time. A forked child starts its own workers and
//! never writes to those of its parent.

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
