//! Mutation tests: with each seeded mistake enabled, some check of this suite fails.
//!
//! `cargo test -p kiln-codegen-llvm --features seeded-faults --test mutation`; `KILN_TEST_FAULT=NAME` for a single
//! one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::Instant;

use kiln_kernel::seeded::{Fault, switch};
use kiln_testkit::cases::topic;
use support::graphs::{self, Tally};

/// The checks with their names, fastest first. An error or a panic counts as a find.
type Check = (&'static str, fn() -> Result<(), String>);

const CHECKS: [Check; 5] = [
    ("graphs", smoke_graphs),
    ("kernels", kernels),
    ("windows", windows),
    ("random graphs", random_graphs),
    ("random kernels", random_kernels),
];

fn smoke_graphs() -> Result<(), String> {
    let runtimes = graphs::runtimes();
    let cases = topic("smoke").map_err(|error| error.to_string())?;
    cases
        .iter()
        .filter(|case| !case.is_kernel())
        .try_for_each(|case| graphs::check_text(&case.text(), &runtimes))
}

fn kernels() -> Result<(), String> {
    for name in ["smoke", "examples"] {
        let cases = topic(name).map_err(|error| error.to_string())?;
        for case in cases.iter().filter(|case| case.is_kernel()) {
            // The last program has sizes that the evaluator can handle.
            let programs = case.programs().map_err(|error| error.to_string())?;
            let program = programs.last().unwrap();
            support::try_text(program, case.elements(), 3000.0)?;
        }
    }
    Ok(())
}

fn windows() -> Result<(), String> {
    let kernel = support::kernel(
        "kernel @window(%x: in f32[H, W, 16], %w: const f32[16, 16, 3, 3], %y: out f32[H, W, 16]) {
          outer i < H, j < W, k < 16
          s = reduce add[p < 3, q < 3, c < 16] (%x[i + p - 1, j + q - 1, c] if inside else 0.0) * %w[k, c, p, q]
          store %y[i, j, k] = s
        }",
    );
    let variants = support::compiled_with_fewer_products(&kernel, 2);
    support::try_at(&kernel, &variants, &[4, 5], support::SMOOTH, 1).map(|_| ())
}

fn random_kernels() -> Result<(), String> {
    (0..60).try_for_each(|seed| support::try_random_kernel(seed).map(|_| ()))
}

fn random_graphs() -> Result<(), String> {
    let runtimes = graphs::runtimes();
    (0..60).try_for_each(|seed| graphs::check_seed(seed, &runtimes, &mut Tally::default()))
}

/// The first check that fails, with its message.
fn first_find() -> Option<(&'static str, String)> {
    CHECKS.iter().find_map(|(name, check)| {
        let message = match catch_unwind(AssertUnwindSafe(check)) {
            Ok(Ok(())) => return None,
            Ok(Err(message)) => message,
            Err(panic) => match panic.downcast_ref::<String>() {
                Some(message) => format!("panic: {message}"),
                None => "panic".to_owned(),
            },
        };
        Some((*name, message))
    })
}

/// The check that finds a mistake, run in a separate process: a read beyond an operand hits a guard page, which ends the
/// process.
fn found_by(fault: &str) -> Option<String> {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", SEEDED])
        .env(SWITCHED_ON, fault)
        .output()
        .unwrap();
    if let Some(signal) = ended.status.signal() {
        return Some(format!("signal {signal}"));
    }
    let said = String::from_utf8_lossy(&ended.stdout);
    let found = said.lines().find_map(|line| line.strip_prefix(FOUND));
    assert!(ended.status.success(), "{fault}: {said}");
    found.map(str::to_owned)
}

/// The test that a process of [`found_by`] runs, the variable with the name of its mistake, and the prefix of its
/// output line.
const SEEDED: &str = "one_seeded_fault";
const SWITCHED_ON: &str = "KILN_TEST_SEEDED";
const FOUND: &str = "found: ";

#[test]
#[ignore = "every_seeded_fault_is_caught runs it once per mistake, in a child process"]
fn one_seeded_fault() {
    let name = std::env::var(SWITCHED_ON).unwrap();
    let fault = Fault::ALL
        .into_iter()
        .find(|fault| format!("{fault:?}") == name);
    switch(Some(fault.unwrap()));
    // The test harness has begun a line.
    if let Some((check, message)) = first_find() {
        let message = message.lines().next().unwrap_or_default();
        println!("\n{FOUND}{check}: {message}");
    }
}

#[test]
fn every_seeded_fault_is_caught() {
    // A check that always fails would catch everything.
    assert_eq!(first_find(), None, "nothing is switched on");
    let only = std::env::var("KILN_TEST_FAULT").ok();
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        let name = format!("{fault:?}");
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let started = Instant::now();
        let found = found_by(&name);
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{name}, {seconds:.1} s: {}",
            found.as_deref().unwrap_or("missed")
        );
        if found.is_none() {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "missed: {}", missed.join(", "));
}
