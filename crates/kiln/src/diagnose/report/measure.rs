//! Measures calls for a report: a first call, calls timed as a whole, and calls with the time of each step.

use super::seen::{Seen, milliseconds};
use super::{CallReport, MachineRates, ReportedInput, advice, apart, compiles, memory, steps};
use crate::diagnose::inspect::planner;
use crate::diagnose::{StepProfile, call_memory, compile_records};
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::{Instance, Model};
use kiln_ir::{Graph, Op};
use kiln_program::Program;
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use std::time::{Duration, Instant};

impl CallReport {
    /// Calls a model with these inputs, and reports on the call: the median of `calls` calls after the first. Also
    /// measures the machine's best rates.
    ///
    /// # Errors
    /// E0983 for an interpreted model, E0976 and E0995 as [`graph`](crate::diagnose::graph), and as
    /// [`Call::run`](crate::Call::run).
    pub fn measure<'a>(
        model: &Model,
        inputs: impl Into<Inputs<'a>>,
        calls: usize,
    ) -> Result<Self, Error> {
        let inputs = inputs.into();
        guarded("making a report", || {
            let tensors = model.arranged(&inputs)?;
            measured(model, &tensors, calls.max(1))
        })
    }
}

fn measured(model: &Model, inputs: &[Tensor], calls: usize) -> Result<CallReport, Error> {
    let instance = model.only_instance()?;
    let before = compile_records(model).len();
    let loaded_before = model.compilation_stats().cache;
    let start = Instant::now();
    drop(model.run(inputs)?);
    let first = start.elapsed();
    let compiled = compile_records(model);
    let stats = model.compilation_stats();
    // Called once more, so that one-time work is not measured.
    drop(model.run(inputs)?);
    let profiles = profiles(model, inputs, calls)?;

    let shapes: Vec<Vec<usize>> = inputs.iter().map(|x| x.shape().to_vec()).collect();
    let graph = instance.optimized();
    let binding = kiln_interpreter::bind_symbols(graph, &shapes)?;
    let plans = planner(&instance, model.options());
    let fusion = plans.fusion()?;
    let seen = Seen {
        graph,
        fusion: &fusion,
        programs: &programs(&instance, plans.program(&fusion)?),
        binding: &binding,
        rates: MachineRates::measure(model).ok(),
    };
    let mut report = CallReport {
        model: graph.name().to_owned(),
        device: model.device().to_string(),
        debug_build: cfg!(debug_assertions),
        inputs: described(model, &shapes),
        sizes: sizes(graph, &binding),
        rates: seen.rates,
        n_ops: n_ops(graph),
        calls,
        first_ms: milliseconds(first),
        call_ms: profiles.call_ms,
        compiles: compiles::of(compiled.get(before..).unwrap_or_default()),
        kernels_loaded: stats
            .cache
            .tier_hits
            .saturating_sub(loaded_before.tier_hits),
        ..CallReport::default()
    };
    (report.threads, report.target) = machine(&instance);
    let ops_of = steps::add(&mut report, &seen, &profiles.median, &profiles.typical);
    report.memory = call_memory(model, &shapes)?.map(memory::of);
    apart::add(&mut report, &seen, &ops_of)?;
    advice::add(&mut report, &stats);
    Ok(report)
}

/// The measured steps of several calls.
struct Profiles {
    /// Each step with its median time.
    median: Vec<StepProfile>,
    /// The steps of one call, of median duration.
    typical: Vec<StepProfile>,
    /// The median time of calls whose steps are not measured.
    call_ms: f64,
}

fn profiles(model: &Model, inputs: &[Tensor], calls: usize) -> Result<Profiles, Error> {
    let (mut whole, mut profiled) = (Vec::new(), Vec::new());
    for _ in 0..calls {
        let start = Instant::now();
        drop(model.run(inputs)?);
        whole.push(start.elapsed());
        let mut steps = Vec::new();
        model.call(inputs).profile(&mut steps).run()?;
        profiled.push(steps);
    }
    profiled.sort_by_key(|steps| steps.iter().map(|step| step.time).sum::<Duration>());
    let typical = profiled.get(calls / 2).cloned().unwrap_or_default();
    let mut steps = typical.clone();
    for (position, step) in steps.iter_mut().enumerate() {
        // A loop may run a different number of steps in each call; otherwise the steps at one position are the same.
        let times = profiled
            .iter()
            .filter_map(|steps| Some(steps.get(position)?.time));
        step.time = median(times.collect());
    }
    Ok(Profiles {
        median: steps,
        typical,
        call_ms: milliseconds(median(whole)),
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The main program and those of other plans.
fn programs(instance: &Instance, main: Program) -> Vec<Program> {
    let compiled = instance.executable().compiled();
    let others = compiled.map_or_else(Vec::new, kiln_lazy_runtime::CompiledProgram::other_plans);
    let others = others.into_iter().map(|(_, program)| program);
    std::iter::once(main).chain(others).collect()
}

/// The number of threads, and the target.
fn machine(instance: &Instance) -> (usize, Option<String>) {
    #[cfg(feature = "native")]
    if let Some(runtime) = instance.executable().runtime() {
        let target = runtime.target().map(ToString::to_string);
        return (runtime.executor().parallelism(), target);
    }
    let _ = instance;
    (1, None)
}

fn described(model: &Model, shapes: &[Vec<usize>]) -> Vec<ReportedInput> {
    let inputs = model.inputs().iter().zip(shapes);
    let described = inputs.map(|(input, shape)| ReportedInput {
        description: input.to_string(),
        shape: shape.clone(),
    });
    described.collect()
}

fn sizes(graph: &Graph, binding: &Binding) -> Vec<(String, i64)> {
    let dims = graph.dims();
    let named = binding
        .iter()
        .map(|(symbol, size)| (dims.symbol_info(symbol).name().to_owned(), size));
    named.collect()
}

fn n_ops(graph: &Graph) -> usize {
    let computes = |op: &Op| !matches!(op, Op::Constant(_));
    graph.ops().filter(|(_, data)| computes(&data.op)).count()
}
