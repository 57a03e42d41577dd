//! Attention as in all-MiniLM-L6-v2, one graph of two products with a softmax between them, against the peak.
//!
//! Only the arithmetic of the products counts, so the exponentials must fit into the rest.

use super::peak::Peak;
use super::{Row, Table, graphs, thread_counts};
use kiln::internals::shape_inference::{GraphBuilder, InferError};
use kiln::{DType, Model, Source, Tensor, diagnose};
use kiln_benches::rounds::{Rounds, in_rounds, timed};
use std::time::Duration;

const HEADS: usize = 12;
const WIDTH: usize = 32;
const TOKENS: usize = 128;

const ROUNDS: Rounds = Rounds {
    least: 20,
    most: 200,
    time: Duration::from_secs(2),
    round: Duration::from_millis(2),
};

/// Percent of the peak.
const BAR: f64 = 60.0;

/// Measures one sentence, on one thread and on all.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    for threads in thread_counts() {
        let name = format!("attention/{TOKENS}/{threads}");
        if !wanted(&name) {
            continue;
        }
        let Some(peak) = Peak::new(threads) else {
            println!("{name:<30} left out: this machine's peak is not known");
            continue;
        };
        let graph = graph().expect("the types are right");
        let model = graphs::options(threads)
            .load(Source::graph(graph))
            .expect("the graph is right");
        table.add(&row(name, &model, &peak));
    }
}

/// Queries, keys and values of all heads, with a mask of ones and zeros over the keys.
fn graph() -> Result<kiln::internals::ir::Graph, InferError> {
    let mut builder = GraphBuilder::new("attention");
    let tokens = builder.symbol("S")?;
    let (one, heads, width) = (
        builder.size(1),
        builder.size(HEADS as i64),
        builder.size(WIDTH as i64),
    );
    let shape = [one, heads, tokens, width];
    let queries = builder.input("q", DType::F32, &shape);
    let keys = builder.input("k", DType::F32, &shape);
    let values = builder.input("v", DType::F32, &shape);
    let mask = builder.input("mask", DType::F32, &[one, one, one, tokens]);
    let keys = builder.transpose(keys, &[0, 1, 3, 2])?;
    let scores = builder.matmul(queries, keys)?;
    let scale = builder.scalar(DType::F32, 1.0 / (WIDTH as f64).sqrt())?;
    let scores = builder.mul(scores, scale)?;
    let one = builder.scalar(DType::F32, 1.0)?;
    let lowest = builder.scalar(DType::F32, f64::from(f32::MIN))?;
    let left_out = builder.sub(one, mask)?;
    let left_out = builder.mul(left_out, lowest)?;
    let scores = builder.add(scores, left_out)?;
    let shares = builder.softmax(scores, 3)?;
    let mixed = builder.matmul(shares, values)?;
    builder.finish(&[("y", mixed)])
}

fn row(name: String, model: &Model, peak: &Peak) -> Row {
    let heads = || graphs::ripple(&[1, HEADS, TOKENS, WIDTH]);
    let (queries, keys, values) = (heads(), heads(), heads());
    let mask = Tensor::full(&[1, 1, 1, TOKENS], 1.0_f32).expect("a small tensor");
    let inputs = [
        ("q", &queries),
        ("k", &keys),
        ("v", &values),
        ("mask", &mask),
    ];
    let best = in_rounds(
        &mut [
            &mut graphs::calls(model, &inputs),
            &mut graphs::steps(model, &inputs),
            &mut timed(|| peak.run()),
            &mut timed(|| peak.run_alone()),
        ],
        ROUNDS,
    );
    let operations = 2.0 * (2 * HEADS * TOKENS * TOKENS * WIDTH) as f64;
    let rate = |operations: f64, seconds: f64| operations / seconds / 1e9;
    let attention = rate(operations, best[0]);
    let fastest = rate(peak.operations(), best[2]);
    let kernels = diagnose::explain(model)
        .expect("it has a plan")
        .count("kernel");
    let became = match kernels {
        1 => "became one kernel".to_owned(),
        kernels => format!("did not become one kernel but {kernels}"),
    };
    Row {
        name,
        measured: attention / fastest * 100.0,
        bar: BAR,
        unit: "%",
        at_least: true,
        is_compute_bound: false,
        detail: format!(
            "{became}; {attention:.1} GFLOP/s of a call of {:.0} us, {:.1} within, beside {}",
            best[0] * 1e6,
            rate(operations, best[1]),
            peak.describe(best[2], best[3]),
        ),
    }
}
