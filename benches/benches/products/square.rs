//! A product of two square matrices larger than any cache, against the peak of the same number of cores.

use super::peak::Peak;
use super::{Row, Table, graphs, thread_counts};
use kiln::Model;
use kiln_benches::rounds::{Rounds, in_rounds, timed};
use std::time::Duration;

const SIZE: usize = 1024;

const ROUNDS: Rounds = Rounds {
    least: 20,
    most: 60,
    time: Duration::from_secs(3),
    // Several calls, so that threads that slept during the other rounds are awake.
    round: Duration::from_millis(50),
};

/// Percent of the peak, on one thread and on all.
const BARS: [f64; 2] = [85.0, 75.0];

/// Measures both operands as inputs, and the second one as a constant.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    for kind in ["inputs", "weights"] {
        for (threads, bar) in thread_counts().into_iter().zip(BARS) {
            let name = format!("matmul_{SIZE}/{kind}/{threads}");
            if !wanted(&name) {
                continue;
            }
            let Some(peak) = Peak::new(threads) else {
                println!("{name:<30} left out: this machine's peak is not known");
                continue;
            };
            let model = if kind == "inputs" {
                graphs::of_inputs(graphs::options(threads))
            } else {
                graphs::of_weights(SIZE, SIZE, graphs::options(threads))
            };
            table.add(&row(name, &model, &peak, bar));
        }
    }
}

fn row(name: String, model: &Model, peak: &Peak, bar: f64) -> Row {
    let (x, y) = (graphs::ripple(&[SIZE, SIZE]), graphs::ripple(&[SIZE, SIZE]));
    let inputs = [("x", &x), ("y", &y)];
    let inputs = &inputs[..model.inputs().len()];
    let best = in_rounds(
        &mut [
            &mut graphs::calls(model, inputs),
            &mut graphs::steps(model, inputs),
            &mut timed(|| peak.run()),
            &mut timed(|| peak.run_alone()),
        ],
        ROUNDS,
    );
    let operations = 2.0 * (SIZE * SIZE * SIZE) as f64;
    let rate = |operations: f64, seconds: f64| operations / seconds / 1e9;
    let product = rate(operations, best[0]);
    let fastest = rate(peak.operations(), best[2]);
    Row {
        name,
        measured: product / fastest * 100.0,
        bar,
        unit: "%",
        at_least: true,
        is_compute_bound: false,
        detail: format!(
            "{product:.1} GFLOP/s of a call, {:.1} within, beside {}",
            rate(operations, best[1]),
            peak.describe(best[2], best[3]),
        ),
    }
}
