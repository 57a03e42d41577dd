//! Times a model's steps with fusion's plan, and with every op as a separate step.

use crate::inputs::Inputs;
use crate::model::ModelArguments;
use anyhow::{Context, Error, ensure};
use kiln::diagnose::{self, Stage, StepProfile};
use kiln::internals::backend::IsaLevel;
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::fusion::FusionOptions;
use kiln::internals::ir::{Graph, OpId};
use kiln::internals::lazy_runtime::{CompiledProgram, Planner, Runtime, RuntimeOptions, SpinPool};
use kiln::internals::native::NativeExecutor;
use kiln::internals::program::{BuildOptions, Program, RowMajor, build};
use kiln::internals::symbolic_shape::{FactSelection, Hint};
use kiln::{Model, Tensor};
use std::sync::Arc;

/// The steps of a call, each with its ops and its best time.
pub(super) struct Measured {
    /// The graph, with the sizes of the call as the likely values of its symbols.
    pub(super) graph: Graph,
    pub(super) fused: Vec<(Vec<OpId>, StepProfile)>,
    pub(super) apart: Vec<(Vec<OpId>, StepProfile)>,
}

/// Times a model on some inputs, both ways interleaved.
pub(super) fn measure(
    model: &Model,
    arguments: &ModelArguments,
    inputs: &Inputs,
    calls: u32,
) -> Result<Measured, Error> {
    let graph = diagnose::graph(model, Stage::Optimized)?;
    let tensors = in_order(model, inputs)?;
    let runtime = runtime(arguments)?;
    let program = |fuse| {
        let planner = Arc::new(Plans {
            graph: graph.clone(),
            fuse,
        });
        CompiledProgram::new(Arc::clone(&runtime), planner)
    };
    let (fused, apart) = (program(true)?, program(false)?);
    for program in [&fused, &apart, &fused, &apart] {
        program.run(&tensors)?;
    }
    let (mut best_fused, mut best_apart) = (None, None);
    for _ in 0..calls {
        keep_best(&mut best_fused, fused.run_profiled(&tensors)?.1);
        keep_best(&mut best_apart, apart.run_profiled(&tensors)?.1);
    }
    Ok(Measured {
        fused: by_ops(fused.program(), &best_fused.unwrap_or_default())?,
        apart: by_ops(apart.program(), &best_apart.unwrap_or_default())?,
        graph: hinted(graph, &tensors)?,
    })
}

/// A separate runtime, configured by the arguments.
fn runtime(arguments: &ModelArguments) -> Result<Arc<Runtime>, Error> {
    let mut options = RuntimeOptions::new();
    if let [Some(level)] = arguments.targets(&[])?.as_slice() {
        let level: IsaLevel = level.parse()?;
        ensure!(
            level.runs_here(),
            "expected a target that this machine runs, found {level}"
        );
        options = options.with_target(LlvmCompiler::target(level));
    }
    let threads = match arguments.thread_counts(&[]).as_slice() {
        [0] | [] => std::thread::available_parallelism().map_or(1, usize::from),
        [threads, ..] => *threads,
    };
    Ok(Arc::new(Runtime::new(
        Some(Arc::new(LlvmCompiler::new())),
        Arc::new(NativeExecutor::new().with_pool(Arc::new(SpinPool::new(threads)))),
        options,
    )))
}

fn in_order(model: &Model, inputs: &Inputs) -> Result<Vec<Tensor>, Error> {
    let tensor = |name: &str| {
        let found = inputs.iter().find(|(given, _)| given == name);
        let (_, tensor) = found.with_context(|| format!("no tensor for the input {name}"))?;
        Ok(tensor.clone())
    };
    model
        .inputs()
        .iter()
        .map(|input| tensor(input.name()))
        .collect()
}

/// The graph with the sizes of the call as the likely values of its symbols.
fn hinted(mut graph: Graph, tensors: &[Tensor]) -> Result<Graph, Error> {
    let shapes: Vec<&[usize]> = tensors.iter().map(Tensor::shape).collect();
    let binding = kiln::internals::interpreter::bind_symbols(&graph, &shapes)?;
    let symbols: Vec<_> = graph.dims().symbols().collect();
    for symbol in symbols {
        if let Some(likely) = binding.get(symbol) {
            graph.dims_mut().hint(Hint { symbol, likely });
        }
    }
    Ok(graph)
}

/// Plans with or without fusion.
struct Plans {
    graph: Graph,
    fuse: bool,
}

impl Planner for Plans {
    fn plan(
        &self,
        facts: &FactSelection,
    ) -> Result<Program, Box<dyn std::error::Error + Send + Sync>> {
        let options = FusionOptions::new()
            .with_fusion(self.fuse)
            .with_facts(facts.clone());
        let fusion = kiln::internals::fusion::plan(&self.graph, &options)?;
        let options = BuildOptions::default();
        Ok(build(self.graph.clone(), &fusion, &RowMajor, &options)?)
    }
}

/// Keeps the shortest time of each step.
fn keep_best(best: &mut Option<Vec<StepProfile>>, steps: Vec<StepProfile>) {
    match best {
        Some(best) if best.len() == steps.len() => {
            for (best, step) in best.iter_mut().zip(steps) {
                best.time = best.time.min(step.time);
            }
        }
        _ => *best = Some(steps),
    }
}

/// The steps of a call with the ops of each.
fn by_ops(
    program: &Program,
    steps: &[StepProfile],
) -> Result<Vec<(Vec<OpId>, StepProfile)>, Error> {
    let planned: Vec<_> = program.steps().collect();
    let same = planned.len() == steps.len()
        && planned
            .iter()
            .zip(steps)
            .all(|(planned, step)| planned.name == step.step);
    ensure!(
        same,
        "expected a call of {} steps in order, found {}; estimates are of models without loops and branches, on sizes \
         that the main plan serves",
        planned.len(),
        steps.len()
    );
    let pairs = planned.iter().zip(steps);
    Ok(pairs
        .map(|(planned, step)| (planned.ops.to_vec(), step.clone()))
        .collect())
}
