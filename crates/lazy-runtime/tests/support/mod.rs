//! A backend without a compiler: its code is the kernel's text, which is evaluated late.
//!
//! Buffers are bytes in a separate address space, poisoned on allocation, so that unwritten data does not look right.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a part of tests"
)]

mod deferred;
mod evaluate;
mod fake_compiler;
mod fake_device;
mod timed_device;

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use kiln_fusion::FusionOptions;
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph};
use kiln_lazy_runtime::{CompiledProgram, Planner, Runtime, RuntimeError, RuntimeOptions};
use kiln_program::{BuildOptions, Program, RowMajor};
use kiln_symbolic_shape::FactSelection;
use kiln_tensor::Tensor;
use kiln_testkit::oracle::{Tolerance, compare_all};

pub use deferred::Broken;
pub use fake_compiler::{FakeCompiler, Gate, Offer};
pub use fake_device::{FakeDevice, Traffic};
pub use timed_device::TimedDevice;

/// Plans a graph in the same way as the facade.
pub struct TestPlanner {
    pub graph: Graph,
    pub fuse: bool,
    pub build: BuildOptions,
}

impl Planner for TestPlanner {
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        let options = FusionOptions::new()
            .with_fusion(self.fuse)
            .with_facts(facts.clone());
        let plan = kiln_fusion::plan(&self.graph, &options)?;
        Ok(kiln_program::build(
            self.graph.clone(),
            &plan,
            &RowMajor,
            &self.build,
        )?)
    }
}

/// A graph from its text.
pub fn graph(text: &str) -> Graph {
    match kiln_shape_inference::read_graph(text, &BlobMap::new()) {
        Ok(graph) => graph,
        Err(errors) => panic!("{errors}"),
    }
}

/// A runtime over the fake backend.
pub fn runtime() -> Arc<Runtime> {
    runtime_with(FakeCompiler::default(), RuntimeOptions::new())
}

pub fn runtime_with(compiler: FakeCompiler, options: RuntimeOptions) -> Arc<Runtime> {
    let options = options.with_compile_threads(NonZeroUsize::MIN.saturating_add(1));
    Arc::new(Runtime::new(
        Some(Arc::new(compiler)),
        Arc::new(FakeDevice::default()),
        options,
    ))
}

/// A program on a runtime.
pub fn compiled(runtime: &Arc<Runtime>, graph: &Graph, fuse: bool) -> CompiledProgram {
    let planner = TestPlanner {
        graph: graph.clone(),
        fuse,
        build: BuildOptions::default(),
    };
    match CompiledProgram::new(Arc::clone(runtime), Arc::new(planner)) {
        Ok(program) => program,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a program and the interpreter, and expects the same outputs.
pub fn expect_same(program: &CompiledProgram, graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let expected = interpret(graph, inputs, &InterpretOptions::default()).expect("it interprets");
    let found = match program.run(inputs) {
        Ok(found) => found,
        Err(error) => panic!("{error}\n{}", program.program()),
    };
    let tolerance = Tolerance::Close {
        relative: 1e-4,
        absolute: 1e-5,
    };
    if let Err(mismatch) = compare_all(&expected, &found, tolerance) {
        panic!("{mismatch}\n{}", program.program());
    }
    found
}

/// The error of a call.
pub fn error_of(program: &CompiledProgram, inputs: &[Tensor]) -> RuntimeError {
    match program.run(inputs) {
        Ok(_) => panic!("expected an error\n{}", program.program()),
        Err(error) => error,
    }
}

/// A tensor of small different numbers.
pub fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let elements: Vec<f32> = (0..n)
        .map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0)
        .collect();
    Tensor::from_vec(shape, elements).expect("a small tensor")
}
