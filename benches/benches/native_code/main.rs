//! What compiled code promises, as one table: how much of the memory's bandwidth simple operations reach, and how long
//! a cold compile takes.
//!
//! `cargo bench -p kiln-benches --bench native_code [-- NAME…]` runs those rows whose names contain one of the names.
//! No criterion here: a ratio is only worth something when both of its sides are measured in turns, and a compile is
//! cold once.

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
