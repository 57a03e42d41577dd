//! One row, and eight rows, times constant weights: as fast as the weights can be read.
//!
//! The figure is the bytes of the weights per second of a call, over the rate at which a loop that does nothing else reads
//! as many bytes on as many threads. If the product's arithmetic at the peak takes longer than the reading, arithmetic is
//! the machine's limit, and the bound applies to it.

use super::peak::Peak;
use super::{Row, Table, graphs, thread_counts};
use kiln_benches::read::{Reader, STREAMS};
use kiln_benches::rounds::{Contender, Rounds, in_rounds, timed};
use std::time::Duration;

/// Rows of the first operand.
const ROWS: [usize; 2] = [1, 8];

/// Weights, K by N.
const WEIGHTS: [[usize; 2]; 3] = [[384, 384], [1536, 384], [4096, 4096]];

const ROUNDS: Rounds = Rounds {
    least: 20,
    most: 200,
    time: Duration::from_secs(2),
    // Several calls of the longest product, so that threads that slept during the other rounds are awake.
    round: Duration::from_millis(10),
};

/// Percent of the limit that applies.
const BAR: f64 = 80.0;

/// The limit by arithmetic alone.
struct Limit {
    /// Seconds at the peak.
    least: f64,
    /// The peak.
    name: String,
}

/// Measures each of the weights, on one thread and on all.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    for [k, n] in WEIGHTS {
        for rows in ROWS {
            for threads in thread_counts() {
                let name = format!("few_rows/{rows}x{k}x{n}/{threads}");
                if wanted(&name) {
                    table.add(&row(name, [rows, k, n], threads));
                }
            }
        }
    }
}

fn row(name: String, [rows, k, n]: [usize; 3], threads: usize) -> Row {
    let model = graphs::of_weights(k, n, graphs::options(threads));
    let x = graphs::ripple(&[rows, k]);
    let inputs = [("x", &x)];
    let reader = Reader::new(k * n, threads);
    let peak = Peak::new(threads);

    let mut product = graphs::calls(&model, &inputs);
    let mut steps = graphs::steps(&model, &inputs);
    let mut ways = [0, 1, 2].map(|way| {
        let reader = &reader;
        timed(move || reader.run(way))
    });
    let mut arithmetic = peak
        .as_ref()
        .map(|peak| (timed(|| peak.run()), timed(|| peak.run_alone())));
    let mut contenders: Vec<&mut Contender<'_>> = vec![&mut product, &mut steps];
    contenders.extend(ways.iter_mut().map(|way| way as &mut Contender<'_>));
    if let Some((all, alone)) = &mut arithmetic {
        contenders.extend([all as &mut Contender<'_>, alone]);
    }
    let best = in_rounds(&mut contenders, ROUNDS);
    let (ours, yardsticks) = best.split_at(2);
    let (call, within) = (ours[0], ours[1]);
    let (reads, arithmetic) = yardsticks.split_at(STREAMS.len());

    let bytes = (k * n * size_of::<f32>()) as f64;
    let (read, streams) = reads
        .iter()
        .copied()
        .zip(STREAMS)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there is a way to read");
    let rate = |seconds: f64| bytes / seconds / 1e9;
    let operations = 2.0 * (rows * k * n) as f64;
    let limit = match (&peak, arithmetic) {
        (Some(peak), &[all, alone]) => Some(Limit {
            least: all * operations / peak.operations(),
            name: peak.describe(all, alone),
        }),
        _ => None,
    };
    let is_bound_by_reads = limit.as_ref().is_none_or(|limit| limit.least <= read);
    let of_peak = limit.as_ref().map_or_else(String::new, |limit| {
        let allows = if is_bound_by_reads {
            String::new()
        } else {
            format!(", which allows {:.0} % here", read / limit.least * 100.0)
        };
        let percent = limit.least / call * 100.0;
        format!("; {percent:.0} % of {}{allows}", limit.name)
    });
    Row {
        name,
        measured: read / call * 100.0,
        bar: BAR,
        unit: "%",
        at_least: true,
        is_compute_bound: !is_bound_by_reads
            && limit.is_some_and(|limit| limit.least / call * 100.0 >= BAR),
        detail: format!(
            "{:.1} us of a call: {:.1} GB/s of weights, {:.1} within, beside reads at {:.1} ({streams} streams a thread){of_peak}",
            call * 1e6,
            rate(call),
            rate(within),
            rate(read),
        ),
    }
}
