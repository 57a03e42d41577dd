//! The numbers that the kernel service promises, one line each: what was measured, the bar, and whether it is met.
//!
//! `cargo xtask bench --service [calls=N] [minutes=N]`: a load of N calls (20,000) on mixed sizes with faults injected, then
//! calls for so many minutes (1) while memory is watched.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod load;
mod machine;
mod peer;

use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::{Device, Options, SealKey, Source, Tensor, diagnose};
use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
use kiln_service::validate::guard::{GuardProgram, main_if_guard};
use kiln_service::{
    BlueprintCompiler, CancelToken, CheckKind, CompilationResult, CompileTarget, KernelValidator,
    Outcome,
};
use peer::{Overhead, overhead};
use std::error::Error;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// A line of the table.
fn line(name: &str, found: impl Display, bar: &str, is_met: Option<bool>) {
    let verdict = match is_met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measured",
    };
    println!("{name:<44} {:<26} {bar:<24} {verdict}", found.to_string());
}

/// The number of an argument such as `calls=100`.
fn argument(name: &str, default: u64) -> u64 {
    let mut words = std::env::args();
    let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    found.unwrap_or(default)
}

pub(crate) fn seal() -> SealKey {
    SealKey::of_secret(b"a benchmark keeps no secrets from anyone")
}

pub(crate) fn compiler() -> Result<BlueprintCompiler, Box<dyn Error>> {
    let validator = KernelValidator::default().with_guard_program(GuardProgram::current()?);
    Ok(BlueprintCompiler::new(seal()).with_validator(validator))
}

fn main() -> Result<(), Box<dyn Error>> {
    main_if_guard();
    println!("{:<44} {:<26} {:<24} verdict", "number", "found", "bar");
    standard_set()?;
    const EXECUTION: &str = "execution against the module in PyTorch";
    match overhead()? {
        Overhead::Worst(ratio, name) => {
            let found = format!("{ratio:.2}x ({name}, the worst)");
            line(EXECUTION, found, "< 1.5x", Some(ratio < 1.5));
        }
        Overhead::NotMeasured(why) => {
            line(EXECUTION, "-", "< 1.5x", None);
            println!("  not measured: {why}");
        }
    }
    let calls = argument("calls", 20_000);
    let found = load::run(calls, Duration::from_secs(60 * argument("minutes", 1)))?;
    found.print();
    Ok(())
}

/// Compile times, gradients, memory and sizes of the standard set.
fn standard_set() -> Result<(), Box<dyn Error>> {
    let compiler = compiler()?;
    let (mut slowest, mut busiest, mut largest) = (Duration::ZERO, Duration::ZERO, 0);
    let (mut gradients, mut passed) = (0, 0);
    let (mut memory, mut cores) = (0.0f64, 0.0f64);
    let mut failures = Vec::new();
    for standard in STANDARD {
        let blueprint = Blueprint::from_json(standard.json, &BlueprintLimits::default())?;
        let (begin, processor) = (Instant::now(), machine::processor_time());
        let result = compiler.run(&blueprint, &CompileTarget::Cpu, &CancelToken::default());
        let wall = begin.elapsed();
        let used = machine::processor_time().saturating_sub(processor);
        cores = cores.max(used.as_secs_f64() / wall.as_secs_f64());
        slowest = slowest.max(wall);
        busiest = busiest.max(used);
        println!("  {:<20} {}", standard.name, stages(&result));
        if let Some(outcome) =
            (result.validation.as_ref()).and_then(|checks| checks.outcome(CheckKind::Gradients))
        {
            gradients += 1;
            passed += usize::from(matches!(outcome, Outcome::Passed(_)));
        }
        match result.into_package() {
            Ok(package) => {
                largest = largest.max(package.metadata().bundle_bytes);
                memory = memory.max(memory_overhead(&blueprint, &package.open(&seal())?)?);
            }
            Err(error) => failures.push(format!("{}: {error}", standard.name)),
        }
    }
    for failure in &failures {
        println!("  FAILED {failure}");
    }
    let all = failures.is_empty();
    line(
        "compile and checks of a blueprint, the slowest",
        format!("{:.2} s", slowest.as_secs_f64()),
        "< 5 s",
        Some(all && slowest.as_secs() < 5),
    );
    // What the same takes on a machine that does nothing else.
    line(
        "  of that, processor time, the most",
        format!("{:.2} s", busiest.as_secs_f64()),
        "< 5 s",
        Some(all && busiest.as_secs() < 5),
    );
    line(
        "gradients that pass",
        format!("{passed} of {gradients}"),
        "100 %",
        Some(passed == gradients && passed > 0),
    );
    line(
        "memory of a call over the default transform",
        format!("{:+.1} %", 100.0 * memory),
        "< +10 %",
        Some(all && memory < 0.1),
    );
    line(
        "cores used while compiling, the most",
        format!("{cores:.2}"),
        "< 2",
        Some(cores < 2.0),
    );
    line(
        "kernels of a model, the largest package",
        format!("{:.2} MB", largest as f64 / 1e6),
        "< 100 MB",
        Some(all && largest < 100_000_000),
    );
    Ok(())
}

fn stages(result: &CompilationResult) -> String {
    let stages = result.stages.iter();
    let texts: Vec<String> = stages
        .map(|(stage, time)| format!("{stage} {:.0} ms", time.as_secs_f64() * 1e3))
        .collect();
    texts.join(", ")
}

/// How much more memory a call of a stored kernel takes than one of the default transform, at likely sizes; and a check that
/// both compute the same.
fn memory_overhead(blueprint: &Blueprint, stored: &kiln::Model) -> Result<f64, Box<dyn Error>> {
    let graph = kiln_service::convert::GraphConverter::default().convert(blueprint)?;
    let default = Options::new()
        .device(Device::cpu())
        .load(Source::graph(graph.clone()))?;
    let sizes = load::likely_shapes(&graph);
    let of = |model: &kiln::Model| -> Result<usize, Box<dyn Error>> {
        let memory = diagnose::call_memory(model, &sizes)?;
        Ok(memory.map_or(0, |memory| memory.arena + memory.results + memory.scratch))
    };
    let inputs: Vec<Tensor> = sizes
        .iter()
        .map(|shape| Tensor::full(shape, 0.5f32))
        .collect::<Result<_, _>>()?;
    let expected = interpret(&graph, &inputs, &InterpretOptions::default())?;
    let found = stored.run(&inputs)?;
    assert!(
        load::are_close(&expected[0], &found[0]),
        "{} computes something else",
        blueprint.name
    );
    Ok(of(stored)? as f64 / of(&default)?.max(1) as f64 - 1.0)
}
