//! Cold compile of every kernel of the four real models, on two threads.
//!
//! The measured time is that of the first call minus that of a second one: compiling the kernels, on the runtime's compile
//! threads, and packing constants. Its CPU time is printed next to it: half of it is the minimum on a machine with two idle
//! cores, independent of this machine's load. The models are in the folder that `KILN_MODELS` names, or in `models/` of the
//! checkout; rows of missing models are skipped with a message.

use super::{Row, Table};
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::lazy_runtime::{Runtime, RuntimeOptions, SpinPool};
use kiln::internals::native::NativeExecutor;
use kiln::{DType, Device, Options, Tensor, internals};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;

/// Models, the kind of their inputs, and seconds.
const MODELS: [(&str, &[usize], f64); 4] = [
    ("ocr-cls", &[1, 3, 48, 192], 1.0),
    ("ocr-rec", &[1, 3, 48, 320], 1.0),
    ("minilm", &[1, 32], 1.0),
    ("ocr-det", &[1, 3, 160, 320], 1.5),
];

/// Measures each model.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../models");
    let folder =
        std::env::var_os("KILN_MODELS").map_or_else(|| PathBuf::from(checkout), PathBuf::from);
    for (model, shape, bar) in MODELS {
        let name = format!("compile_models/{model}");
        if !wanted(&name) {
            continue;
        }
        let path = folder.join(model).join("model.onnx");
        if !path.exists() {
            println!("{name:<30} left out: no such model here; `cargo xtask models` fetches it");
            continue;
        }
        let mut rounds: Vec<Cold> = (0..ROUNDS).map(|_| cold(&path, shape)).collect();
        rounds.sort_by_key(|round| round.wall);
        let best = rounds.swap_remove(0);
        table.add(&Row {
            name,
            measured: best.wall.as_secs_f64(),
            bar,
            unit: "s",
            at_least: false,
            is_compute_bound: false,
            detail: format!(
                "{} compiles, {} s of processor time, {} left to plain loops, {} steps interpreted; loading and planning {:.2} s before",
                best.compiles,
                best.cpu.map_or_else(|| "?".to_owned(), |cpu| format!("{:.2}", cpu.as_secs_f64())),
                best.fallback,
                best.interpreted,
                best.load.as_secs_f64(),
            ),
        });
    }
}

struct Cold {
    load: Duration,
    wall: Duration,
    /// CPU time of the first call over all threads; `None` if the system does not report it.
    cpu: Option<Duration>,
    compiles: u64,
    fallback: u64,
    interpreted: u64,
}

fn cold(path: &std::path::Path, shape: &[usize]) -> Cold {
    let options =
        RuntimeOptions::new().with_compile_threads(NonZero::new(2).expect("two is not zero"));
    let runtime = Runtime::new(
        Some(Arc::new(LlvmCompiler::new())),
        Arc::new(NativeExecutor::new().with_pool(Arc::new(SpinPool::new(2)))),
        options,
    );
    let start = Instant::now();
    let options = internals::on_runtime(Options::new().device(Device::cpu()), Arc::new(runtime));
    let model = options.load(path).expect("the model loads");
    let load = start.elapsed();
    let tensors: Vec<(String, Tensor)> = model
        .inputs()
        .iter()
        .map(|input| {
            let tensor = match input.dtype() {
                Some(DType::I64) => Tensor::full(shape, 1i64),
                _ => Tensor::full(shape, 0.25f32),
            };
            (input.name().to_owned(), tensor.expect("a small tensor"))
        })
        .collect();
    let call = || {
        let start = Instant::now();
        model.run(&tensors).expect("it runs");
        start.elapsed()
    };
    let before = processor_time();
    let first = call();
    let cpu = processor_time()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    let stats = model.compilation_stats();
    let second = call();
    Cold {
        load,
        wall: first.saturating_sub(second),
        cpu,
        compiles: stats.compilations,
        fallback: stats.fallback_contractions,
        interpreted: stats.interpreted_steps,
    }
}

/// CPU time of this process so far, to a hundredth of a second, if `/proc` exists.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything; after it, user and system time are the 12th and 13th fields.
    let (_, rest) = text.rsplit_once(')')?;
    let ticks: Vec<u64> = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    Some(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
}
