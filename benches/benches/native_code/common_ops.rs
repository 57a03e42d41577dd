//! The first call of ten common ops, each with its own model and runtime: planning, compiling, loading, running.

use super::{Row, Table};
use kiln::{Device, Options, Source, Tensor};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

/// In milliseconds.
const BAR: f64 = 100.0;

/// Ops by name, on `x` and, for binary ops, `y`.
const OPS: [(&str, &str, &str); 10] = [
    ("add", "add %x, %y", "f32[M, N]"),
    ("mul", "mul %x, %y", "f32[M, N]"),
    ("exp", "exp %x", "f32[M, N]"),
    ("relu", "relu %x", "f32[M, N]"),
    ("gelu", "gelu %x", "f32[M, N]"),
    ("sum", "reduce %x {function = sum, axes = [1]}", "f32[M]"),
    ("max", "reduce %x {function = max, axes = [1]}", "f32[M]"),
    ("matmul", "matmul %x, %y", "f32[M, N]"),
    (
        "transpose",
        "transpose %x {permutation = [1, 0]}",
        "f32[N, M]",
    ),
    ("concat", "concat %x, %y {axis = 0}", "f32[2 * M, N]"),
];

/// Measures the cold call of each op.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    for (op, call, result) in OPS {
        let name = format!("compile_common_ops/{op}");
        if !wanted(&name) {
            continue;
        }
        let dims = if op == "matmul" {
            ["M, K", "K, N"]
        } else {
            ["M, N", "M, N"]
        };
        let second = if call.contains("%y") {
            format!(", %y: f32[{}]", dims[1])
        } else {
            String::new()
        };
        let text = format!(
            "graph @f(%x: f32[{}]{second}) -> {result} {{ %z = {call} return %z }}",
            dims[0]
        );
        let mut best = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            best = best.min(cold(&text));
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        table.add(&Row {
            name,
            measured: ms(best.0),
            bar: BAR,
            unit: "ms",
            at_least: false,
            is_compute_bound: false,
            detail: format!("of which the compiler {:.1} ms", ms(best.1)),
        });
    }
}

/// The time from the text to the first result, and the part of it spent in the compiler.
fn cold(text: &str) -> (Duration, Duration) {
    let options = Options::new()
        .device(Device::cpu())
        .threads(2)
        .shared_kernels(false);
    let tensor = Tensor::full(&[64, 64], 0.5f32).expect("a small tensor");
    let start = Instant::now();
    let model = options
        .load(Source::text(text))
        .expect("the text is a graph");
    model
        .run(vec![&tensor; model.inputs().len()])
        .expect("it runs");
    (start.elapsed(), model.compilation_stats().compile_time)
}
