//! The performance bounds of products, as one table: the fraction of peak arithmetic that large ones reach, odd shapes
//! compared with specialised libraries, attention, and the rate at which weights are read where there are few rows.
//!
//! `cargo bench -p kiln-benches --bench products [-- NAME…]` runs those rows whose names contain one of the names. numpy's
//! matrix product is one of the libraries if `KILN_PEERS_PYTHON` names a Python that has it. Criterion is not used: a ratio
//! is meaningful only if both of its sides are measured in interleaved rounds.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops when its set-up is wrong, and prints what it saw"
)]

mod attention;
mod few_rows;
mod gemm_crate;
mod graphs;
mod numpy;
mod odd_shapes;
mod peak;
mod square;

use kiln_benches::table::{Row, Table};

fn main() {
    kiln_benches::wanted::run(
        "products",
        &[
            square::measure,
            odd_shapes::measure,
            attention::measure,
            few_rows::measure,
        ],
    );
}

/// One thread, and one per core.
fn thread_counts() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all > 1 { vec![1, all] } else { vec![1] }
}
