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

use kiln_kernel::{text, verify};
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Checked, Elements, random_kernel, random_sizes};
use kiln_testkit::random::SplitMix64;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many shapes each kernel is run at.
const N_SHAPES: u64 = 10;

fn seeds(usual: Range<u64>) -> Range<u64> {
    let given = std::env::var("KILN_TEST_KERNELS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| text.parse().expect("KILN_TEST_KERNELS is FIRST..END");
    given.map_or(usual, |(first, end)| parse(first)..parse(end))
}

fn check_seed(seed: u64) -> (usize, usize) {
    let source = random_kernel(seed);
    let kernel = text::read(&source).unwrap_or_else(|errors| panic!("{}", errors.render(&source)));
    let Ok(kernel) = verify(kernel) else {
        return (0, 0);
    };
    let variants = support::compiled(&kernel);
    let mut random = SplitMix64::new(seed);
    let mut tally = (0, 0);
    for shape in 0..N_SHAPES {
        let Some(symbols) = random_sizes(&mut random, &kernel, 3000.0) else {
            continue;
        };
        let smallest = symbols.iter().copied().filter(|&size| size > 0).min().unwrap_or(1).min(5);
        let indices = if shape % 5 == 4 { (-1, smallest + 1) } else { (0, smallest) };
        let elements = Elements { flavor: Flavor::Smooth, indices };
        match support::check_at(&kernel, &variants, &symbols, elements, seed * 100 + shape) {
            Some(Checked::Agreed) => tally.0 += 1,
            Some(Checked::Faulted) => tally.1 += 1,
            None => {}
        }
    }
    tally
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
                    let result = std::panic::catch_unwind(|| check_seed(seed));
                    let mut all = all.lock().unwrap();
                    match result {
                        Ok((agreed, faulted)) => {
                            all.0 += agreed;
                            all.1 += faulted;
                        }
                        Err(panic) => {
                            let message = panic.downcast_ref::<String>().cloned();
                            all.2.push(format!("seed {seed}: {}", message.unwrap_or_default()));
                        }
                    }
                }
            });
        }
    });
    let (agreed, faulted, broken) = all.into_inner().unwrap();
    println!("{agreed} calls agreed, {faulted} faulted");
    assert!(broken.is_empty(), "{} kernels:\n{}", broken.len(), broken.join("\n\n"));
}
