//! Large graphs, stage by stage: recorded, differentiated, optimised, fused, made a program, compiled and called, on a thread with a
//! stack of 128 KiB. `cargo xtask bench --large` runs this.
//!
//! Each shape of graph is measured at 1,000, 2,000, 4,000 and 10,000 ops: a stage whose time per op grows with the number of ops is not
//! linear. The last column is that growth, from the smallest to the largest. Arguments: optionally a word that a shape's name contains.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its result, and may panic"
)]

use kiln::internals::autodiff::{GradientRequest, differentiate};
use kiln::internals::fusion::{FusionOptions, plan};
use kiln::internals::ir::Graph;
use kiln::internals::passes::{PassOptions, optimize};
use kiln::internals::program::{BuildOptions, MemoryBudget, RowMajor, build};
use kiln::{AxisSize, Cache, DType, Device, Options, Recording, Source, Tensor, Var};
use std::time::Instant;

/// The stack of the thread. Frames of a debug build are several times as large.
const STACK: usize = if cfg!(debug_assertions) {
    768 << 10
} else {
    128 << 10
};
const OPS: [usize; 4] = [1_000, 2_000, 4_000, 10_000];
const STAGES: [&str; 9] = [
    "record",
    "gradient",
    "passes",
    "fusion",
    "program",
    "half memory",
    "load",
    "first call",
    "call",
];

/// A shape of graph.
struct Shape {
    name: &'static str,
    loss: fn(&Var, usize) -> Var,
}

const SHAPES: &[Shape] = &[
    Shape {
        name: "chain",
        loss: |x, ops| {
            let step = |y: Var, at: usize| (y * (1.0 + (at % 17) as f64 * 1e-3)).sin() + x;
            (0..ops / 3).fold(x.clone(), step)
        },
    },
    Shape {
        name: "layers",
        loss: |x, ops| {
            let weight = |layer: usize| {
                let element = |at: usize| ((at * 29 + layer * 13) % 31) as f32 / 31.0 - 0.5;
                x.constant(&Tensor::from_vec(&[6, 6], (0..36).map(element).collect()).unwrap())
            };
            let row = x.constant(&Tensor::full(&[1, 6], 0.5_f32).unwrap());
            let h = x.reshape([x.size(0), 1.into()]) * row;
            let layer = |h: Var, at| &h + (h.matmul(weight(at)) + 0.01).tanh() * 0.1;
            (0..ops / 5).fold(h, layer)
        },
    },
    Shape {
        name: "branches",
        loss: |x, ops| {
            let branch = |at: usize| (x * (1.0 + at as f64 / 500.0)).cos();
            (1..ops / 3).fold(branch(0), |sum, at| sum + branch(at))
        },
    },
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for shape in SHAPES.iter().filter(|shape| shape.name.contains(&wanted)) {
        let thread = std::thread::Builder::new().stack_size(STACK);
        std::thread::scope(|threads| {
            let work = || print(shape);
            thread.spawn_scoped(threads, work).unwrap().join().unwrap();
        });
    }
}

/// Prints a table: a line per stage, a column per number of ops, in milliseconds.
fn print(shape: &Shape) {
    let rows = OPS.map(|ops| stages(shape, ops));
    let title = format!("{}, ms", shape.name);
    let counts = OPS.map(|ops| format!("{ops:>10}"));
    println!("{title:14}{} growth per op", counts.concat());
    for (stage, name) in STAGES.iter().enumerate() {
        let times = rows.map(|row| row[stage]);
        let shown = times.map(|time| format!("{time:10.2}"));
        let growth = times[3] / times[0] / (OPS[3] as f64 / OPS[0] as f64);
        println!("{name:14}{} {growth:.2}", shown.concat());
    }
}

/// The times of all stages.
fn stages(shape: &Shape, ops: usize) -> [f64; 9] {
    let mut times = Vec::with_capacity(STAGES.len());
    let mut last = Instant::now();
    let mut lap = || {
        let took = last.elapsed().as_secs_f64() * 1e3;
        last = Instant::now();
        times.push(took);
    };
    let recorded = record(shape, ops);
    lap();
    let joint = differentiate(&recorded, &GradientRequest::of_scalar(0, &[0])).unwrap();
    lap();
    let joint = joint.graph;
    let (optimized, _) = optimize(joint.clone(), &mut PassOptions::default()).unwrap();
    lap();
    let fused = plan(&optimized, &FusionOptions::new()).unwrap();
    lap();
    let program = build(
        optimized.clone(),
        &fused,
        &RowMajor,
        &BuildOptions::default(),
    )
    .unwrap();
    lap();
    let half = BuildOptions {
        memory: MemoryBudget::Fraction(0.5),
        ..BuildOptions::default()
    };
    let less = build(optimized, &fused, &RowMajor, &half).unwrap();
    lap();
    drop((fused, program, less));
    let options = Options::new().cache(Cache::off()).device(Device::cpu());
    let options = options.threads(1).shared_kernels(false);
    let model = options.load(Source::graph(joint)).unwrap();
    lap();
    let x = Tensor::full(&[5], 0.25_f32).unwrap();
    let first = model.run([("x", &x)]).unwrap();
    lap();
    let again = model.run([("x", &x)]).unwrap();
    lap();
    assert_eq!(
        first[0].to_vec::<f32>().unwrap(),
        again[0].to_vec::<f32>().unwrap()
    );
    times.try_into().unwrap()
}

fn record(shape: &Shape, ops: usize) -> Graph {
    let recording = Recording::new(shape.name);
    let x = recording.input("x", DType::F32, [AxisSize::from("N")]);
    let loss = (shape.loss)(&x, ops).mean(..);
    recording.finish(&[("loss", &loss)]).unwrap()
}
