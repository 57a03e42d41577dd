//! Workers as seen by a parent: their results, failures, and leftovers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod faults;
mod lifecycle;
mod results;
mod support;
