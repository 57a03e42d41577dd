//! The cost of default timing compared with timing off, per call: a chain of ten kernels, which takes a microsecond.

use super::chain::{caller, chain};
use kiln::timing::{SystemClock, Timing, TimingOptions, Verbosity};
use kiln_benches::rounds::{Contender, median, timed};
use kiln_benches::table::{Row, Table};
use std::sync::Arc;

/// In percent.
const BAR: f64 = 1.0;

/// Calls that are measured as one: calls this short are sampled, and each measurement includes its share of the samples.
const CALLS: usize = 1000;

/// Pairs of measurements: about four seconds.
const PAIRS: usize = 2500;

/// Measures both in interleaved rounds.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let name = "launch/timing_default";
    if !wanted(name) {
        return;
    }
    let timing = Timing::new(Arc::new(SystemClock::new()), TimingOptions::new());
    let program = chain(10, 1).with_timing(timing);
    // One program at one memory address: another copy of it may be a tenth faster.
    let mut contenders = [Verbosity::Off, Verbosity::Default].map(|verbosity| {
        let (program, mut call) = (&program, caller(&program));
        timed(move || {
            program.timing().set_verbosity(verbosity);
            (0..CALLS).for_each(|_| call());
        })
    });
    let [off, default] = &mut contenders;
    let ratio = median_ratio([default, off]);
    table.add(&Row {
        name: name.to_owned(),
        measured: (ratio - 1.0) * 100.0,
        bar: BAR,
        unit: "%",
        at_least: false,
        is_compute_bound: false,
        detail: format!("the median of {PAIRS} pairs of {CALLS} calls of ten kernels, by default and with timing off"),
    });
}

/// The ratio of the first time to the second, measured in interleaved rounds; the order within a round alternates.
fn median_ratio([first, second]: [&mut Contender<'_>; 2]) -> f64 {
    let ratios = (0..PAIRS)
        .map(|pair| {
            let (above, below) = if pair % 2 == 0 {
                let above = first(1);
                (above, second(1))
            } else {
                let below = second(1);
                (first(1), below)
            };
            above.as_secs_f64() / below.as_secs_f64()
        })
        .collect();
    median(ratios)
}
