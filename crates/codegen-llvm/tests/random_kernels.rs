//! Random kernels: compiled with every schedule at every level, and compared with the evaluator.
//!
//! `KILN_TEST_KERNELS=FIRST..END` checks other seeds than the first few. A daily test checks further seeds for
//! `KILN_TEST_SECONDS` seconds; `KILN_TEST_BASE` repeats those of a given day.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_testkit::random::SeedsOfTheDay;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn seeds(usual: Range<u64>) -> Range<u64> {
    let given = std::env::var("KILN_TEST_KERNELS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| text.parse().expect("KILN_TEST_KERNELS is FIRST..END");
    given.map_or(usual, |(first, end)| parse(first)..parse(end))
}

/// Checks seeds on two threads, until they run out or `go_on` returns false.
fn check_seeds(seeds: Range<u64>, go_on: impl Fn() -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new((0, 0, Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !go_on() {
                        break;
                    }
                    let result = support::try_random_kernel(seed);
                    let mut all = all.lock().unwrap();
                    match result {
                        Ok((agreed, faulted)) => {
                            all.0 += agreed;
                            all.1 += faulted;
                        }
                        Err(message) => all.2.push(format!("seed {seed}: {message}")),
                    }
                }
            });
        }
    });
    let (agreed, faulted, broken) = all.into_inner().unwrap();
    let end = next.into_inner().min(seeds.end);
    println!(
        "seeds {}..{end}: {agreed} calls agreed, {faulted} faulted",
        seeds.start
    );
    assert!(
        broken.is_empty(),
        "{} kernels:\n{}",
        broken.len(),
        broken.join("\n\n")
    );
}

#[test]
fn random_kernels_do_what_they_mean() {
    check_seeds(seeds(0..120), || true);
}

#[test]
fn random_kernels_of_the_day_do_what_they_mean() {
    let of_the_day = SeedsOfTheDay::begin();
    check_seeds(of_the_day.first..u64::MAX, || of_the_day.go_on());
}
