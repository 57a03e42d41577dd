//! `kiln profile --estimates`: what fusion expected of each kernel of several ops, beside what it brings.
//!
//! Two programs are made of the model's graph, one along the plan that fusion makes and one in which every op is a step
//! of its own, and both run on the same inputs in turns, on one runtime. A kernel's measured speed-up is the time of its
//! ops' steps over its own, each the best of its calls; the estimate is fusion's, for the sizes of the call. How well
//! the cost model orders fusions is the rank correlation of the two.

use crate::inputs::Inputs;
use crate::model::ModelArguments;
use crate::report;
use anyhow::{Context, Error, ensure};
use kiln::codegen_llvm::{IsaLevel, LlvmCompiler};
use kiln::fusion::{FusionCandidateAnalyzer, FusionOptions};
use kiln::ir::{Graph, OpId};
use kiln::lazy_runtime::{
    CompiledProgram, Planner, Runtime, RuntimeOptions, SpinPool, StepProfile,
};
use kiln::native::NativeExecutor;
use kiln::program::{BuildOptions, Program, RowMajor, build};
use kiln::symbolic_shape::{Hint, PlanFact};
use kiln::{Model, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A kernel of several ops.
struct Estimate {
    step: String,
    class: &'static str,
    ops: usize,
    /// What fusion makes of the ops' times apart, and of the kernel's.
    estimated: f64,
    /// The ops' steps, each by itself, and their time.
    steps_apart: usize,
    apart: Duration,
    together: Duration,
}

impl Estimate {
    fn measured(&self) -> f64 {
        self.apart.as_secs_f64() / self.together.as_secs_f64().max(1e-9)
    }
}

/// Measures a model on some inputs, and prints the table.
pub(crate) fn print(
    title: &str,
    model: &Model,
    arguments: &ModelArguments,
    inputs: &Inputs,
    calls: u32,
) -> Result<(), Error> {
    let estimates = measure(model, arguments, inputs, calls)?;
    report::line(format!(
        "{title}: {} kernels of several ops, estimated beside measured",
        estimates.len()
    ))?;
    report::line(format!(
        "{:>9} {:>9} {:>5} {:>6} {:>10} {:>10}  {:11} name",
        "estimated", "measured", "ops", "steps", "apart ms", "one ms", "class"
    ))?;
    for estimate in &estimates {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        report::line(format!(
            "{:>8.2}x {:>8.2}x {:>5} {:>6} {:>10.4} {:>10.4}  {:11} {}",
            estimate.estimated,
            estimate.measured(),
            estimate.ops,
            estimate.steps_apart,
            ms(estimate.apart),
            ms(estimate.together),
            estimate.class,
            estimate.step,
        ))?;
    }
    let estimated: Vec<f64> = estimates
        .iter()
        .map(|estimate| estimate.estimated)
        .collect();
    let measured: Vec<f64> = estimates.iter().map(Estimate::measured).collect();
    report::line(match rank_correlation(&estimated, &measured) {
        Some(correlation) => format!("rank correlation (Spearman): {correlation:.2}"),
        None => "rank correlation (Spearman): none, there is nothing to rank".to_owned(),
    })
}

fn measure(
    model: &Model,
    arguments: &ModelArguments,
    inputs: &Inputs,
    calls: u32,
) -> Result<Vec<Estimate>, Error> {
    let graph = model.graph()?;
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
    let together = by_ops(fused.program(), &best_fused.unwrap_or_default())?;
    let alone = by_ops(apart.program(), &best_apart.unwrap_or_default())?;

    let graph = hinted(graph, &tensors)?;
    let analyzer = FusionCandidateAnalyzer::new(&graph, FusionOptions::new());
    let mut estimates = Vec::new();
    for (ops, profile) in together {
        let Some(class) = profile.class else { continue };
        let parts: Vec<_> = alone
            .iter()
            .filter(|(part, _)| part.iter().all(|op| ops.contains(op)))
            .collect();
        // Views have no step; an op beside them alone is no fusion.
        if ops.len() < 2 || parts.len() < 2 {
            continue;
        }
        let Ok(benefit) = analyzer.analyze_benefit(&ops) else {
            continue;
        };
        estimates.push(Estimate {
            step: profile.step,
            class,
            ops: ops.len(),
            estimated: benefit.estimated_speedup,
            steps_apart: parts.len(),
            apart: parts.iter().map(|(_, part)| part.time).sum(),
            together: profile.time,
        });
    }
    Ok(estimates)
}

/// A runtime of its own, as the arguments say.
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
        Arc::new(NativeExecutor::new()),
        Arc::new(SpinPool::new(threads)),
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

/// The graph with the sizes of the call as what its symbols are likely to be.
fn hinted(mut graph: Graph, tensors: &[Tensor]) -> Result<Graph, Error> {
    let shapes: Vec<&[usize]> = tensors.iter().map(Tensor::shape).collect();
    let binding = kiln::interpreter::bind_symbols(&graph, &shapes)?;
    let symbols: Vec<_> = graph.dims().symbols().collect();
    for symbol in symbols {
        if let Some(likely) = binding.get(symbol) {
            graph.dims_mut().hint(Hint { symbol, likely });
        }
    }
    Ok(graph)
}

/// Plans with fusion, or without.
struct Plans {
    graph: Graph,
    fuse: bool,
}

impl Planner for Plans {
    fn plan(
        &self,
        without: &[PlanFact],
    ) -> Result<Program, Box<dyn std::error::Error + Send + Sync>> {
        let options = FusionOptions::new()
            .with_fusion(self.fuse)
            .with_plan_facts(without.is_empty());
        let fusion = kiln::fusion::plan(&self.graph, &options)?;
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

/// The steps of a call with the ops that each does.
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

/// Spearman's: the correlation of ranks, equal values sharing theirs. None where all are equal.
fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let covariance = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let scale = (covariance(&a, &a) * covariance(&b, &b)).sqrt();
    (scale > 0.0).then(|| covariance(&a, &b) / scale)
}

/// The rank of each value from 1; of equal values, the middle of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let key = |value: f64| value.to_bits();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut places: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for (place, &value) in sorted.iter().enumerate() {
        let (first, count) = places.entry(key(value)).or_insert((place, 0));
        *count = place - *first + 1;
    }
    let rank = |value: &f64| {
        let (first, count) = places.get(&key(*value)).copied().unwrap_or_default();
        first as f64 + (count as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn order_alone_counts() {
        let a = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(rank_correlation(&a, &[1.0, 10.0, 11.0, 1000.0]), Some(1.0));
        assert_eq!(rank_correlation(&a, &[4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        let mixed = rank_correlation(&a, &[2.0, 1.0, 4.0, 3.0]);
        assert!(mixed.is_some_and(|mixed| (mixed - 0.6).abs() < 1e-12));
        assert_eq!(rank_correlation(&a, &[1.0; 4]), None);
        assert_eq!(rank_correlation(&[], &[]), None);
    }
}
