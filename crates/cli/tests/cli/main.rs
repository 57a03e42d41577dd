//! The command, tested from outside, in one test program, so that the tests' shared code is compiled and stored once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

/// A store server that misbehaves on request.
#[cfg(all(feature = "llvm", feature = "remote"))]
#[path = "../../../remote-store/tests/support/mod.rs"]
mod server;
mod support;

#[cfg(all(feature = "llvm", feature = "onnx"))]
mod book;
#[cfg(feature = "llvm")]
mod cache;
#[cfg(feature = "llvm")]
#[cfg(feature = "onnx")]
mod check;
mod commands;
#[cfg(feature = "llvm")]
mod compiled;
mod drawn;
#[cfg(feature = "llvm")]
mod estimates;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod served;
mod shell;
#[cfg(all(feature = "llvm", feature = "serve", target_os = "linux"))]
mod soak;
#[cfg(all(feature = "llvm", feature = "remote"))]
mod store;
mod timing;
#[cfg(all(feature = "llvm", feature = "opentelemetry"))]
mod traces;
