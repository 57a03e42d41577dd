//! Compiled functions next to eager ones, which make one call and one allocation per op: forward, and forward and backward. For each, the
//! time to compile, the time and memory of a call, and the speed-up. `cargo xtask bench --eager` runs this.
//!
//! Arguments: the number of threads; optionally a word that a case's name contains. *ops* runs the ops one by one, without recording
//! them; *tape* is a `GradientTape`, which also records them. The speed-up is that over the ops alone.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod counting;
mod graphs;

use counting::{Allocated, counted};
use graphs::{CASES, Case};
use kiln::internals::autodiff::{GradientRequest, differentiate};
use kiln::internals::ir::Graph;
use kiln::{Cache, Device, GradientTape, Model, Options, Source, Tensor, Var};
use std::error::Error;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error>;

/// How long each is measured at least.
const MEASURING: Duration = Duration::from_millis(300);

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let threads = words
        .first()
        .and_then(|word| word.parse().ok())
        .unwrap_or(1);
    let wanted = words.get(1).map_or("", String::as_str);
    let mut ratios: Vec<f64> = Vec::new();
    println!(
        "{:40} {:>9} {:>10} {:>10} {:>10} {:>8} {:>6}  {:>13} {:>19}",
        "", "compile", "run", "ops", "tape", "speed-up", "aim", "allocations", "peak memory"
    );
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        let inputs = graphs::inputs(case);
        let tape = GradientTape::new();
        let loss = record(&tape, case, &inputs).0;
        let forward = tape.graph(&[("loss", &loss)])?;
        drop(tape);
        let all: Vec<usize> = (0..inputs.len()).collect();
        let joint = differentiate(&forward, &GradientRequest::of_scalar(0, &all))?.graph;
        println!("{}", case.name);
        for (what, graph, is_reversed) in
            [("forward", &forward, false), ("and backward", &joint, true)]
        {
            let row = measured(case, graph, &inputs, threads, is_reversed)?;
            println!("  {what:38} {row}");
            ratios.push(row.speed_up());
        }
    }
    let logarithms = ratios.iter().map(|ratio| ratio.ln());
    let mean = (logarithms.sum::<f64>() / ratios.len().max(1) as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!("geomean speed-up {mean:.1} least {least:.1}");
    Ok(())
}

/// Times and memory of one function.
struct Row {
    compile: Duration,
    run: Duration,
    ops: Duration,
    tape: Duration,
    aim: f64,
    compiled: Allocated,
    eager: Allocated,
}

impl Row {
    fn speed_up(&self) -> f64 {
        self.ops.as_secs_f64() / self.run.as_secs_f64()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let kib = |allocated: Allocated| allocated.peak as f64 / 1024.0;
        write!(
            f,
            "{:6.1} ms {:7.1} us {:7.1} us {:7.1} us {:7.1}x {:5.0}x  {:5} of {:5} {:7.0} of {:7.0} K",
            self.compile.as_secs_f64() * 1e3,
            micros(self.run),
            micros(self.ops),
            micros(self.tape),
            self.speed_up(),
            self.aim,
            self.compiled.count,
            self.eager.count,
            kib(self.compiled),
            kib(self.eager),
        )
    }
}

fn record(tape: &GradientTape, case: &Case, inputs: &[Tensor]) -> (Var, Vec<Var>) {
    let variables = inputs.iter().enumerate();
    let variables: Vec<Var> = variables
        .map(|(index, tensor)| tape.watch(&format!("x{index}"), tensor))
        .collect();
    ((case.loss)(&variables), variables)
}

fn measured(
    case: &Case,
    graph: &Graph,
    inputs: &[Tensor],
    threads: usize,
    is_reversed: bool,
) -> Result<Row, Failure> {
    let load = |device: Device| {
        let options = Options::new().cache(Cache::off()).threads(threads);
        let options = options.shared_kernels(false).device(device);
        options.load(Source::graph(graph.clone()))
    };
    let begin = Instant::now();
    let model = load(Device::cpu())?;
    drop(model.run(inputs)?);
    let compile = begin.elapsed();
    model.wait_for_compiles(Duration::from_secs(60));
    let interpreted = load(Device::interpreter())?;
    let eager = || -> Result<(), Failure> {
        let tape = GradientTape::new();
        let (loss, variables) = record(&tape, case, inputs);
        match is_reversed {
            true => drop(tape.gradients(&loss, &variables.iter().collect::<Vec<_>>())?),
            false => drop(tape.value(&loss)?),
        }
        Ok(())
    };
    let call = |model: &Model| -> Result<(), Failure> {
        drop(model.run(inputs)?);
        Ok(())
    };
    let run = median(&|| call(&model))?;
    let ops = median(&|| call(&interpreted))?;
    let tape = median(&eager)?;
    // A call that begins with nothing kept from the one before.
    model.trim_memory(0);
    let (done, compiled) = counted(|| call(&model));
    done?;
    let (done, of_tape) = counted(eager);
    done?;
    Ok(Row {
        compile,
        run,
        ops,
        tape,
        aim: case.aim,
        compiled,
        eager: of_tape,
    })
}

/// The median time of a piece of work.
fn median(work: &dyn Fn() -> Result<(), Failure>) -> Result<Duration, Failure> {
    work()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 5 || begin.elapsed() < MEASURING {
        let one = Instant::now();
        work()?;
        times.push(one.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
