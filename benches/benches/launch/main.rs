//! The overhead that a call may have in addition to its arithmetic, as one table: chains of kernels on tiny tensors whose
//! plan exists, on one thread and on many at once, with and without timing.
//!
//! `cargo bench -p kiln-benches --bench launch [-- NAME…]` runs those rows whose names contain one of the names.

#![allow(
    clippy::expect_used,
    reason = "a benchmark stops when its set-up is wrong"
)]

mod chain;
mod overhead;
mod threads;
mod timing;

use kiln_benches::rounds::Rounds;
use std::time::Duration;

const ROUNDS: Rounds = Rounds {
    least: 50,
    most: 2000,
    time: Duration::from_secs(4),
    round: Duration::from_millis(2),
};

fn main() {
    kiln_benches::wanted::run(
        "launch",
        &[overhead::measure, timing::measure, threads::measure],
    );
}

/// In seconds.
fn nanoseconds(seconds: f64) -> f64 {
    seconds * 1e9
}
