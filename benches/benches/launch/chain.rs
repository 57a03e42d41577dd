//! Programs that do almost nothing: tiny tensors through many steps of one small kernel.

use kiln::diagnose::{self, Stage};
use kiln::internals::backend::{CallerOnly, TaskPool};
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::fusion::FusionOptions;
use kiln::internals::ir::Graph;
use kiln::internals::lazy_runtime::{CompiledProgram, Planner, Runtime, RuntimeOptions, SpinPool};
use kiln::internals::native::NativeExecutor;
use kiln::internals::program::{BuildOptions, Program, RowMajor};
use kiln::internals::symbolic_shape::FactSelection;
use kiln::{Device, Options, Passes, Source, Tensor};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

/// One kernel per op.
struct Unfused(Graph);

impl Planner for Unfused {
    fn plan(&self, _facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        let options = FusionOptions::new().with_fusion(false);
        let plan = kiln::internals::fusion::plan(&self.0, &options)?;
        let build = BuildOptions::default();
        Ok(kiln::internals::program::build(
            self.0.clone(),
            &plan,
            &RowMajor,
            &build,
        )?)
    }
}

/// A compiled chain of `steps` steps, with nothing timed unless the program has a recorder.
pub(crate) fn chain(steps: usize, threads: usize) -> CompiledProgram {
    let options = Options::new()
        .device(Device::interpreter())
        .passes(Passes::None);
    let model = options.load(Source::text(&text(steps))).expect("a graph");
    let pool: Arc<dyn TaskPool> = match threads {
        1 => Arc::new(CallerOnly),
        _ => Arc::new(SpinPool::new(threads)),
    };
    let runtime = Runtime::new(
        Some(Arc::new(LlvmCompiler::new())),
        Arc::new(NativeExecutor::new().with_pool(pool)),
        RuntimeOptions::new(),
    );
    let planner = Unfused(diagnose::graph(&model, Stage::Optimized).expect("its ranks are known"));
    let program = CompiledProgram::new(Arc::new(runtime), Arc::new(planner)).expect("a plan");
    assert_eq!(program.program().kernels().len(), 1, "one for all steps");
    program
}

/// The text of `n` ops one after another.
fn text(steps: usize) -> String {
    let mut text = "graph @chain(%x: f32[N]) -> f32[N] {\n".to_owned();
    let mut before = "x".to_owned();
    for step in 0..steps {
        writeln!(text, "  %v{step} = neg %{before}").expect("strings take everything");
        before = format!("v{step}");
    }
    writeln!(text, "  return %{before}\n}}").expect("strings take everything");
    text
}

/// Four numbers.
pub(crate) fn tiny() -> Tensor {
    Tensor::full(&[4], 1.5f32).expect("a small tensor")
}

/// A call of a program that writes into a given tensor.
pub(crate) fn caller(program: &CompiledProgram) -> impl FnMut() + '_ {
    let (inputs, mut outputs) = ([tiny()], [tiny()]);
    move || {
        let ran = program.run_into(black_box(&inputs), &mut outputs);
        ran.expect("it runs");
    }
}
