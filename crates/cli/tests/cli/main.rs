//! The command, tested from outside: one program, so that the tests' shared code is compiled and stored once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

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
#[cfg(feature = "llvm")]
mod estimates;
#[cfg(feature = "serve")]
mod serve;
#[cfg(all(feature = "llvm", feature = "remote"))]
mod store;
mod timing;
