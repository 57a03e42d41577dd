//! The cost of timing: not measurable when off, and under a hundredth of a call by default.
//!
//! `span` is an event that begins and ends, as each call has; `nested` one inside another; `threads_16` is a span's cost
//! while sixteen threads open spans at the same time. `clock` is the cost of reading the time, which a span does twice.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kiln::internals::timing::{Category, Sampler, SystemClock, Timing, TimingOptions, Verbosity};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

fn timing(verbosity: Verbosity) -> Timing {
    let options = TimingOptions::new().verbosity(verbosity);
    Timing::new(Arc::new(SystemClock::new()), options)
}

fn spans(c: &mut Criterion) {
    let begin = Instant::now();
    c.bench_function("timing/clock", |b| b.iter(|| black_box(begin.elapsed())));
    for verbosity in Verbosity::ALL {
        let timing = timing(verbosity);
        let event = timing
            .register(Category::Runtime, "run", "Calls")
            .expect("the name is free");
        c.bench_function(&format!("timing/span_{verbosity}"), |b| {
            b.iter(|| drop(black_box(timing.begin(black_box(event)))));
        });
        c.bench_function(&format!("timing/nested_{verbosity}"), |b| {
            let _outer = timing.begin(event);
            b.iter(|| drop(black_box(timing.begin(black_box(event)))));
        });
        c.bench_function(&format!("timing/threads_16_{verbosity}"), |b| {
            b.iter_custom(|spans| on_threads(&timing, spans));
        });
    }
}

/// The time of this many spans on each of sixteen threads, divided by sixteen.
fn on_threads(timing: &Timing, spans: u64) -> Duration {
    const THREADS: u32 = 16;
    let event = timing.event("run").expect("it is registered");
    let barrier = Barrier::new(THREADS as usize + 1);
    let begin = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..spans {
                    drop(black_box(timing.begin(black_box(event))));
                }
            });
        }
        barrier.wait();
        Instant::now()
    });
    begin.elapsed() / THREADS
}

/// A call of about a microsecond, without and with a span around it, as in real calls.
fn calls(c: &mut Criterion) {
    let call = || (0..black_box(1_000_u64)).fold(0_u64, |sum, value| sum.wrapping_mul(31) ^ value);
    c.bench_function("timing/call_without", |b| b.iter(|| black_box(call())));
    for verbosity in [Verbosity::Off, Verbosity::Default] {
        let timing = timing(verbosity);
        let event = timing.category_event(Category::Runtime);
        let (sampler, mut number) = (Sampler::new(), 0);
        c.bench_function(&format!("timing/call_{verbosity}"), |b| {
            b.iter(|| {
                let _span = timing.begin_sampled(event, &sampler, number);
                number += 1;
                black_box(call())
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(2));
    targets = spans, calls
}
criterion_main!(benches);
