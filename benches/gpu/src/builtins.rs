//! Operations that are no kernels, on the GPU: their code is compiled in the background, then gives what the interpreter does.

use anyhow::{Error, ensure};
use kiln::{Device, Model, Options, Source, Tensor, diagnose};
use std::thread;
use std::time::{Duration, Instant};

/// How long all compiles may take in total.
const PATIENCE: Duration = Duration::from_secs(30);

const GRAPHS: [(&str, &str); 3] = [
    (
        "top 10 of each row",
        "graph @top(%x: f32[N, M]) -> (f32[N, 10], i64[N, 10]) where M >= 10 {
           %v, %i = top_k %x {k = 10, axis = 1, extremum = max}
           return %v, %i
         }",
    ),
    (
        "top 1,000 of each column",
        "graph @top(%x: f32[N, M]) -> (f32[1000, M], i64[1000, M]) where N >= 1000 {
           %v, %i = top_k %x {k = 1000, axis = 0, extremum = min}
           return %v, %i
         }",
    ),
    (
        "non-zero",
        "graph @found(%x: f32[N, M]) -> (i64[2, N * M], i64[]) {
           %i, %c = non_zero %x
           return %i, %c
         }",
    ),
];

/// Checks and times each graph.
pub(crate) fn run() -> Result<(), Error> {
    let mut right = 0;
    for (name, text) in GRAPHS {
        let options = Options::new().device(Device::cuda(0)).shared_kernels(false);
        let model = options.load(Source::text(text))?;
        let begin = Instant::now();
        while on_device(&model) == 0 {
            ensure!(begin.elapsed() < PATIENCE, "{name}: it stays on the host");
            model.run(&[drawn(1000, 10)?])?;
            thread::sleep(Duration::from_millis(10));
        }
        for (rows, columns) in [(1000, 10), (1013, 257), (2048, 1024), (5000, 11)] {
            let inputs = [("x", drawn(rows, columns)?)];
            let before = on_device(&model);
            let comparison = diagnose::compare(&model, &diagnose::reference(&model, &inputs)?)?;
            ensure!(comparison.agrees(), "{name} of {rows} x {columns} is wrong");
            ensure!(
                on_device(&model) > before,
                "{name} of {rows} x {columns} ran on the host"
            );
            right += 1;
        }
        let x = drawn(4096, 1024)?;
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let begin = Instant::now();
            model.run(std::slice::from_ref(&x))?;
            best = best.min(begin.elapsed());
        }
        let line = serde_json::json!({"builtin": name, "shape": [4096, 1024], "ms": best.as_secs_f64() * 1e3});
        println!("{line}");
    }
    println!("builtins: {right} agreed");
    Ok(())
}

/// The number of builtins that ran on the device.
fn on_device(model: &Model) -> u64 {
    let counts = model.device_counts();
    let found = counts
        .iter()
        .find(|(name, _)| *name == "builtins run on the device");
    found.map_or(0, |(_, count)| *count)
}

/// Numbers with many zeros and equal elements.
fn drawn(rows: usize, columns: usize) -> Result<Tensor, Error> {
    let number = |at: usize| ((at * 7919) % 1013) as f32 - 500.0;
    let numbers: Vec<f32> = (0..rows * columns)
        .map(|at| if at % 3 == 0 { 0.0 } else { number(at) })
        .collect();
    Ok(Tensor::from_vec(&[rows, columns], numbers)?)
}
