//! Many threads that call one program at once: nobody is in another's way.

use super::chain::{caller, chain};
use super::nanoseconds;
use kiln::lazy_runtime::CompiledProgram;
use kiln_benches::table::{Row, Table};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Threads, however many cores there are.
const THREADS: usize = 16;

/// Percent of the cores times what one thread does.
const BAR: f64 = 90.0;

/// How often each is measured, in turns.
const TURNS: usize = 40;

/// How long in each turn.
const TURN: Duration = Duration::from_millis(60);

/// Calls between two looks at the clock.
const CALLS: u64 = 100;

/// Measures one thread and many in turns, each by its best turn.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let name = format!("launch/threads_{THREADS}");
    if !wanted(&name) {
        return;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let program = chain(10, cores);
    let (mut alone, mut all) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        alone = alone.min(on_threads(&program, 1));
        all = all.min(on_threads(&program, THREADS));
    }
    let [alone, all] = [alone, all].map(nanoseconds);
    let ideal = alone / THREADS.min(cores) as f64;
    table.add(&Row {
        name,
        measured: ideal / all * 100.0,
        bar: BAR,
        unit: "%",
        at_least: true,
        is_compute_bound: false,
        detail: format!(
            "one thread ends a call every {alone:.0} ns; {THREADS} on {cores} cores every {all:.0}, ideally {ideal:.0}"
        ),
    });
}

/// Seconds from the end of a call to that of the next, while so many threads call for a while.
fn on_threads(program: &CompiledProgram, threads: usize) -> f64 {
    let (barrier, begin) = (Barrier::new(threads), OnceLock::new());
    let work = || {
        let mut call = caller(program);
        barrier.wait();
        let begin = begin.get_or_init(Instant::now);
        let mut calls = 0;
        while begin.elapsed() < TURN {
            (0..CALLS).for_each(|_| call());
            calls += CALLS;
        }
        (calls, begin.elapsed())
    };
    let done: Vec<(u64, Duration)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| handle.join().expect("it runs");
        handles.into_iter().map(join).collect()
    });
    let calls: u64 = done.iter().map(|thread| thread.0).sum();
    let end = done.iter().map(|thread| thread.1).max();
    end.map_or(f64::NAN, |end| end.as_secs_f64() / calls as f64)
}
