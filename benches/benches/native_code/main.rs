//! The performance bounds of compiled code, as one table: the fraction of the memory bandwidth that simple operations
//! reach, and the time of a cold compile.
//!
//! `cargo bench -p kiln-benches --bench native_code [-- NAME…]` runs those rows whose names contain one of the names.
//! Criterion is not used: a ratio is meaningful only if both of its sides are measured in interleaved rounds, and a compile is cold only
//! once.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops when its set-up is wrong, and prints what it saw"
)]

mod bandwidth;
mod common_ops;
mod copy;
mod models;

use kiln_benches::table::{Row, Table};

fn main() {
    kiln_benches::wanted::run(
        "native_code",
        &[bandwidth::measure, common_ops::measure, models::measure],
    );
}
