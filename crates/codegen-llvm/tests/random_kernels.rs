//! Random kernels: compiled with every schedule at every level, and compared with their meaning.
//!
//! `KILN_TEST_KERNELS=FIRST..END` checks other seeds than the first few.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

mod support;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn seeds(usual: Range<u64>) -> Range<u64> {
    let given = std::env::var("KILN_TEST_KERNELS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| text.parse().expect("KILN_TEST_KERNELS is FIRST..END");
    given.map_or(usual, |(first, end)| parse(first)..parse(end))
}

#[test]
fn random_kernels_do_what_they_mean() {
    let seeds = seeds(0..120);
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new((0, 0, Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
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
    println!("{agreed} calls agreed, {faulted} faulted");
    assert!(
        broken.is_empty(),
        "{} kernels:\n{}",
        broken.len(),
        broken.join("\n\n")
    );
}
