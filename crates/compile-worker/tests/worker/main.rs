//! Workers as a parent meets them: what they make, how they fail, and what remains of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod faults;
mod lifecycle;
mod results;
mod support;
