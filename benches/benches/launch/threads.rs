//! Many threads that call one program at the same time, without contention.

use super::chain::{caller, chain};
use super::nanoseconds;
use kiln::internals::lazy_runtime::CompiledProgram;
use kiln_benches::rounds::median;
use kiln_benches::table::{Row, Table};
use std::array;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Number of threads, independent of the number of cores.
const THREADS: usize = 16;

/// Percent of the number of cores times the throughput of one thread.
const BAR: f64 = 90.0;

/// Number of rounds for each measurement.
const ROUNDS: usize = 60;

/// Duration of each round.
const ROUND: Duration = Duration::from_millis(60);

/// Calls between two readings of the clock.
const CALLS: u64 = 100;

/// Measures one thread, many threads, and one thread per core with separate programs, in interleaved rounds. The speed of a virtual
/// machine's cores varies between rounds, so the figure is the median over rounds of the ratio of many threads to one thread
/// in the same round. The result with separate programs shows how much of the rest is due to the machine.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let name = format!("launch/threads_{THREADS}");
    if !wanted(&name) {
        return;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let program = || chain(10, cores);
    let (shared, own): (_, Vec<_>) = (program(), (0..cores).map(|_| program()).collect());
    let [one, many] = [1, THREADS].map(|threads| vec![&shared; threads]);
    let apart: Vec<&CompiledProgram> = own.iter().collect();
    let (mut rounds, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let round = [&one, &many, &apart].map(|programs| at_once(programs));
        let ideal = round[0] / THREADS.min(cores) as f64;
        shares.push([ideal / round[1], ideal / round[2]]);
        rounds.push(round);
    }
    let [alone, all, _] = medians(&rounds).map(nanoseconds);
    let [share, share_apart] = medians(&shares).map(|share| share * 100.0);
    table.add(&Row {
        name,
        measured: share,
        bar: BAR,
        unit: "%",
        at_least: true,
        is_compute_bound: false,
        detail: format!(
            "one thread ends a call every {alone:.0} ns, {THREADS} on {cores} cores every {all:.0}; {cores} with programs of their own: {share_apart:.0} %"
        ),
    });
}

/// The median of some figures.
fn medians<const N: usize>(rounds: &[[f64; N]]) -> [f64; N] {
    array::from_fn(|figure| median(rounds.iter().map(|round| round[figure]).collect()))
}

/// Seconds between the ends of consecutive calls, while a thread calls each of these programs for a while.
fn at_once(programs: &[&CompiledProgram]) -> f64 {
    let (barrier, begin) = (Barrier::new(programs.len()), OnceLock::new());
    let work = |program| {
        let mut call = caller(program);
        barrier.wait();
        let begin = begin.get_or_init(Instant::now);
        let mut calls = 0;
        while begin.elapsed() < ROUND {
            (0..CALLS).for_each(|_| call());
            calls += CALLS;
        }
        (calls, begin.elapsed())
    };
    let done: Vec<(u64, Duration)> = thread::scope(|scope| {
        let work = &work;
        let spawn = |&program| scope.spawn(move || work(program));
        let handles: Vec<_> = programs.iter().map(spawn).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| handle.join().expect("it runs");
        handles.into_iter().map(join).collect()
    });
    let calls: u64 = done.iter().map(|thread| thread.0).sum();
    let end = done.iter().map(|thread| thread.1).max();
    end.map_or(f64::NAN, |end| end.as_secs_f64() / calls as f64)
}
