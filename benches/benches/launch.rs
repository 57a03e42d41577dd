//! What a call costs beside its arithmetic: tiny tensors through chains of kernels, alone and from many threads at once.
//!
//! `chain_n` is a call of n kernels whose plan is there, into tensors that are given: the difference of two of them over
//! the difference of their kernels is the cost of a kernel, what is left that of a plan hit. `facade_run` is the same
//! through a model, with names and new outputs. `threads_n` is a call's share of the machine's cores while n threads call
//! one program at once: equal to `threads_1` where nobody is in another's way.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kiln::codegen_llvm::LlvmCompiler;
use kiln::fusion::FusionOptions;
use kiln::ir::Graph;
use kiln::kernel::CallerOnly;
use kiln::lazy_runtime::{CompiledProgram, Planner, Runtime, RuntimeOptions, SpinPool};
use kiln::native::NativeExecutor;
use kiln::program::{BuildOptions, Program, RowMajor};
use kiln::symbolic_shape::PlanFact;
use kiln::timing::{SystemClock, Timing, TimingOptions, Verbosity};
use kiln::{Backend, Cache, Model, Options, Tensor};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// Every op a kernel.
struct Unfused(Graph);

impl Planner for Unfused {
    fn plan(&self, _without: &[PlanFact]) -> Result<Program, Box<dyn Error + Send + Sync>> {
        let options = FusionOptions::new().with_fusion(false);
        let plan = kiln::fusion::plan(&self.0, &options)?;
        let build = BuildOptions::default();
        Ok(kiln::program::build(
            self.0.clone(),
            &plan,
            &RowMajor,
            &build,
        )?)
    }
}

/// The text of so many ops one after another.
fn chain_text(n_ops: usize) -> String {
    let mut text = "graph @chain(%x: f32[N]) -> f32[N] {\n".to_owned();
    let mut before = "x".to_owned();
    for op in 0..n_ops {
        writeln!(text, "  %v{op} = neg %{before}").expect("strings take everything");
        before = format!("v{op}");
    }
    writeln!(text, "  return %{before}\n}}").expect("strings take everything");
    text
}

fn chain(n_ops: usize, threads: usize) -> CompiledProgram {
    let options = Options::new().backend(Backend::Interpreter).passes(false);
    let model = Model::from_text_with(&chain_text(n_ops), options).expect("a graph");
    let pool: Arc<dyn kiln::kernel::TaskPool> = match threads {
        1 => Arc::new(CallerOnly),
        _ => Arc::new(SpinPool::new(threads)),
    };
    let runtime = Runtime::new(
        Some(Arc::new(LlvmCompiler::new())),
        Arc::new(NativeExecutor::new()),
        pool,
        RuntimeOptions::new(),
    );
    let planner = Unfused(model.graph().expect("its ranks are known"));
    let program = CompiledProgram::new(Arc::new(runtime), Arc::new(planner)).expect("a plan");
    assert_eq!(program.program().kernels().len(), 1, "one for all steps");
    program
}

fn tiny() -> Tensor {
    Tensor::full(&[4], 1.5f32).expect("a small tensor")
}

fn calls(c: &mut Criterion) {
    for n_ops in [1, 10, 100] {
        let program = chain(n_ops, 1);
        let (inputs, mut outputs) = ([tiny()], [tiny()]);
        c.bench_function(&format!("launch/chain_{n_ops}"), |b| {
            b.iter(|| program.run_into(black_box(&inputs), &mut outputs));
        });
        c.bench_function(&format!("launch/chain_{n_ops}_new_outputs"), |b| {
            b.iter(|| program.run(black_box(&inputs)));
        });
    }
    for verbosity in [Verbosity::Off, Verbosity::Default] {
        let options = TimingOptions::new().verbosity(verbosity);
        let timing = Timing::new(Arc::new(SystemClock::new()), options);
        let program = chain(10, 1).with_timing(timing);
        let (inputs, mut outputs) = ([tiny()], [tiny()]);
        c.bench_function(&format!("launch/chain_10_timing_{verbosity}"), |b| {
            b.iter(|| program.run_into(black_box(&inputs), &mut outputs));
        });
    }
}

/// A product of 8x8 through a model.
fn facade(c: &mut Criterion) {
    let text = "graph @product(%a: f32[M, K], %b: f32[K, N]) -> f32[M, N] {
      %y = matmul %a, %b
      return %y
    }";
    let options = Options::new()
        .backend(Backend::Llvm)
        .threads(1)
        .cache(Cache::off());
    let model = Model::from_text_with(text, options).expect("a graph");
    let matrix = Tensor::full(&[8, 8], 0.5f32).expect("a small tensor");
    let inputs = [matrix.clone(), matrix.clone()];
    let mut outputs = [Tensor::full(&[8, 8], 0.0f32).expect("a small tensor")];
    c.bench_function("launch/facade_run_into", |b| {
        b.iter(|| model.run_into(black_box(&inputs), &mut outputs));
    });
    c.bench_function("launch/facade_run", |b| {
        b.iter(|| model.run([("a", &inputs[0]), ("b", &inputs[1])]));
    });
}

fn threads(c: &mut Criterion) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let program = chain(10, cores);
    for n_threads in [1, cores, 16] {
        c.bench_function(&format!("launch/threads_{n_threads}"), |b| {
            b.iter_custom(|calls| {
                let time = on_threads(&program, n_threads, calls);
                time * n_threads.min(cores) as u32 / n_threads as u32
            });
        });
    }
}

/// The time of so many calls on each of so many threads.
fn on_threads(program: &CompiledProgram, n_threads: usize, calls: u64) -> Duration {
    let barrier = Barrier::new(n_threads + 1);
    let begin = thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let (inputs, mut outputs) = ([tiny()], [tiny()]);
                barrier.wait();
                for _ in 0..calls {
                    let result = program.run_into(black_box(&inputs), &mut outputs);
                    result.expect("it runs");
                }
            });
        }
        barrier.wait();
        Instant::now()
    });
    begin.elapsed()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = calls, facade, threads
}
criterion_main!(benches);
