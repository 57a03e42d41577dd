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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!(
            "nothing is measured in a test run; say: cargo bench -p kiln-benches --bench native_code"
        );
        return;
    }
    let names: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part));
    let mut table = Table::new();
    bandwidth::measure(&wanted, &mut table);
    common_ops::measure(&wanted, &mut table);
    models::measure(&wanted, &mut table);
    table.finish();
}
