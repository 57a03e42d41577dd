//! Faults that a cache must survive, on real files and in real processes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

mod behaviour;
mod clocks;
mod code;
mod damage;
mod disk;
mod faults;
mod fork;
mod killed;
mod mounts;
mod nesting;
mod races;
mod sealed;
mod storm;
mod support;
mod trust;
