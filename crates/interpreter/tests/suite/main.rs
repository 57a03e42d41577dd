//! Whole programs through the interpreter.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod edges;
mod inputs;
mod malformed;
mod programs;
mod support;
