//! Random graphs, fused and compiled at every level, compared with the interpreter.
//!
//! `KILN_TEST_GRAPHS=FIRST..END` checks other seeds than the first three hundred. A daily test checks further seeds for
//! `KILN_TEST_SECONDS` seconds; `KILN_TEST_BASE` repeats those of a given day. The ignored test runs for an hour from a
//! seed taken from the clock, and prints a summary.

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
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use support::graphs::{self, Tally};

/// The graphs among the first three hundred whose outputs differ at some level because rounding moves a value across a
/// jump.
const WITH_JUMPS: &[u64] = &[];

/// Checks seeds on two threads until the seeds or the time run out.
fn check_seeds(seeds: Range<u64>, until: Option<Instant>) -> Tally {
    let runtimes = graphs::runtimes();
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Tally::default());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let mut tally = Tally::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || until.is_some_and(|until| Instant::now() >= until) {
                        break;
                    }
                    if let Err(error) = graphs::check_seed(seed, &runtimes, &mut tally) {
                        println!("{error}\n");
                        tally.broken.push(error);
                    }
                }
                all.lock().unwrap().add(tally);
            });
        }
    });
    let tally = all.into_inner().unwrap();
    for runtime in &runtimes {
        let stats = runtime.stats();
        println!(
            "{}: {} kernels, {} compilations in {:?}, {} steps interpreted, {} contractions in plain loops",
            runtime
                .target()
                .map_or_else(String::new, ToString::to_string),
            stats.unique_kernels,
            stats.compilations,
            stats.compile_time,
            stats.interpreted_steps,
            stats.fallback_contractions
        );
    }
    for report in tally.unstable.values() {
        println!("perhaps a jump: {report}\n");
    }
    println!(
        "{} graphs, {} calls agreed, {} fail in the interpreter too",
        tally.graphs, tally.agreed, tally.failed
    );
    tally
}

#[test]
fn compiled_random_graphs_give_what_the_interpreter_gives() {
    let given = std::env::var("KILN_TEST_GRAPHS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| text.parse().expect("KILN_TEST_GRAPHS is FIRST..END");
    let seeds = given.map_or(0..300, |(first, end)| parse(first)..parse(end));
    let tally = check_seeds(seeds, None);
    tally.expect_right();
    assert!(tally.agreed > 2 * tally.failed, "most calls have outputs");
    if given.is_none() {
        let new = tally
            .unstable
            .keys()
            .filter(|seed| !WITH_JUMPS.contains(seed));
        let new: Vec<_> = new.collect();
        assert!(new.is_empty(), "graphs that had no jump before: {new:?}");
    }
}

#[test]
fn compiled_random_graphs_of_the_day_give_what_the_interpreter_gives() {
    let of_the_day = SeedsOfTheDay::begin();
    let tally = check_seeds(of_the_day.first..u64::MAX, Some(of_the_day.until));
    tally.expect_right();
}

#[test]
#[ignore = "takes an hour"]
fn an_hour_of_random_graphs() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let start = now << 20;
    println!("from seed {start}");
    let mut tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(3600);
    let mut first = start;
    // Runtimes keep every kernel, so they are replaced from time to time.
    while Instant::now() < end {
        let part = check_seeds(first..first + 500, Some(end));
        first += 500;
        tally.add(part);
    }
    println!(
        "seeds {start}..{first}: {} graphs, {} calls agreed, {} perhaps over a jump",
        tally.graphs,
        tally.agreed,
        tally.unstable.len()
    );
    tally.expect_right();
}
