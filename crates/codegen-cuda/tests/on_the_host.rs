//! Kernels on the host: the generated source, executed thread by thread, gives the results of the kernel's evaluator at edge
//! sizes. Needs g++; without it the tests say so and pass.
//!
//! `KILN_TEST_KERNELS=FIRST..END` checks other seeds than the first few; `KILN_TEST_FILES=WORD` only files whose paths contain
//! a word; `KILN_TEST_ALL=1` every file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_testkit::cases::folder;
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Elements, covering_sizes, random_kernel, random_sizes};
use kiln_testkit::random::SplitMix64;
use support::{check_everywhere, has_compiler, kernel, smooth};

fn skips() -> bool {
    let skips = !has_compiler();
    if skips {
        println!("skipped: generated CUDA C is not executed, since g++ is not installed");
    }
    skips
}

fn expect(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} kernels:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// Runs checks on two threads; returns the failures.
fn in_parallel<T: Sync>(
    all: &[T],
    check: impl Fn(&T) -> Result<(usize, usize), String> + Sync,
) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let result = std::sync::Mutex::new(((0, 0), Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(one) = all.get(at) else { break };
                    let checked = check(one);
                    let mut result = result.lock().unwrap();
                    match checked {
                        Ok((agreed, faulted)) => {
                            result.0.0 += agreed;
                            result.0.1 += faulted;
                        }
                        Err(why) => result.1.push(why),
                    }
                }
            });
        }
    });
    let ((agreed, faulted), failures) = result.into_inner().unwrap();
    println!(
        "{} kernels: {agreed} launches agreed, {faulted} faulted",
        all.len()
    );
    failures
}

fn try_random(seed: u64) -> Result<(usize, usize), String> {
    let text = random_kernel(seed);
    let read = kiln_kernel::text::read(&text).map_err(|errors| errors.render(&text))?;
    let Ok(kernel) = kiln_kernel::verify(read) else {
        return Ok((0, 0));
    };
    let mut random = SplitMix64::new(seed);
    let sizes: Vec<Vec<i64>> = (0..8)
        .filter_map(|_| random_sizes(&mut random, &kernel, 1500.0))
        .collect();
    // Indices that are data: one call in five may have some out of bounds.
    let elements = |seed: u64| Elements {
        flavor: match seed % 5 {
            2 => Flavor::Special,
            _ => Flavor::Smooth,
        },
        indices: match seed % 5 {
            4 => (-1, 3),
            _ => (0, 1),
        },
    };
    check_everywhere(&kernel, &[], &sizes, elements).map_err(|why| format!("seed {seed}: {why}"))
}

#[test]
fn random_kernels_do_what_they_mean() {
    if skips() {
        return;
    }
    let given = std::env::var("KILN_TEST_KERNELS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let seeds = given.map_or(0..12, |(first, end)| {
        first.parse().unwrap()..end.parse().unwrap()
    });
    let seeds: Vec<u64> = seeds.collect();
    expect(in_parallel(&seeds, |&seed| try_random(seed)));
}

/// The kernels of testkit's files.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for topic in std::fs::read_dir(folder()).unwrap() {
        for file in std::fs::read_dir(topic.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "kernel") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn kernels_of_files_do_what_they_mean() {
    if skips() {
        return;
    }
    let word = std::env::var("KILN_TEST_FILES").unwrap_or_default();
    let all = std::env::var_os("KILN_TEST_ALL").is_some() || !word.is_empty();
    let files = files();
    let chosen: Vec<&(String, String)> = files
        .iter()
        .filter(|(path, _)| path.contains(&word))
        .step_by(if all { 1 } else { 12 })
        .collect();
    expect(in_parallel(&chosen, |(path, text)| {
        let kernel = kernel(text);
        let sizes = covering_sizes(&kernel, 1500.0);
        check_everywhere(&kernel, &[], &sizes, smooth).map_err(|why| format!("{path}: {why}"))
    }));
}
