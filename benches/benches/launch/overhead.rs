//! The overhead of a call in addition to its arithmetic, on one thread: finding the plan, and launching each kernel.

use super::chain::{caller, chain, tiny};
use super::{ROUNDS, nanoseconds};
use kiln::{Cache, Device, Options, Source, Tensor};
use kiln_benches::rounds::{in_rounds, timed};
use kiln_benches::table::{Row, Table};
use std::hint::black_box;

/// Steps of the chains: the difference between two chains is due only to kernels.
const STEPS: [usize; 3] = [1, 10, 100];

/// In nanoseconds.
const PLAN_HIT_BAR: f64 = 1000.0;

/// In nanoseconds.
const KERNEL_BAR: f64 = 300.0;

/// Measures chains, and a product of 8x8 through a model for comparison.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let names = ["launch/plan_hit", "launch/kernel"];
    if !names.iter().any(|name| wanted(name)) {
        return;
    }
    let programs = STEPS.map(|steps| chain(steps, 1));
    let mut into = programs.each_ref().map(|program| timed(caller(program)));
    let mut fresh = programs.each_ref().map(|program| {
        let inputs = [tiny()];
        timed(move || drop(program.run(black_box(&inputs)).expect("it runs")))
    });
    let [a, b, c] = &mut into;
    let [d, e, f] = &mut fresh;
    let best = in_rounds(&mut [a, b, c, d, e, f], ROUNDS);
    let best: Vec<f64> = best.into_iter().map(nanoseconds).collect();
    let kernel = (best[2] - best[0]) / (STEPS[2] - STEPS[0]) as f64;
    let product = product();
    let rows = [
        (
            best[0] - kernel,
            PLAN_HIT_BAR,
            format!(
                "a call of one kernel less the kernel; calls of {STEPS:?} kernels take {:.0?} ns, with new outputs \
                 {:.0?}; a product of 8x8 through `Model::run_into` and `Model::run` {product:.0?}",
                &best[..3],
                &best[3..],
            ),
        ),
        (
            kernel,
            KERNEL_BAR,
            format!("a call of {} less one of {}", STEPS[2], STEPS[0]),
        ),
    ];
    for (name, (measured, bar, detail)) in names.into_iter().zip(rows) {
        table.add(&Row {
            name: name.to_owned(),
            measured,
            bar,
            unit: "ns",
            at_least: false,
            is_compute_bound: false,
            detail,
        });
    }
}

/// Nanoseconds of an 8x8 product through a model: into a given tensor, and with names and a new tensor.
fn product() -> Vec<f64> {
    let text = "graph @product(%a: f32[M, K], %b: f32[K, N]) -> f32[M, N] {
      %y = matmul %a, %b
      return %y
    }";
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .cache(Cache::off());
    let model = options.load(Source::text(text)).expect("a graph");
    let matrix = Tensor::full(&[8, 8], 0.5f32).expect("a small tensor");
    let inputs = [matrix.clone(), matrix];
    let mut outputs = [Tensor::full(&[8, 8], 0.0f32).expect("a small tensor")];
    let mut into = timed(|| {
        let ran = model.call(black_box(&inputs)).run_into(&mut outputs);
        ran.expect("it runs");
    });
    let mut fresh = timed(|| {
        let outputs = model.run([("a", &inputs[0]), ("b", &inputs[1])]);
        drop(outputs.expect("it runs"));
    });
    let best = in_rounds(&mut [&mut into, &mut fresh], ROUNDS);
    best.into_iter().map(nanoseconds).collect()
}
