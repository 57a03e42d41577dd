//! `kiln bench`: call times, one line per case.
//!
//! The clock runs only around calls, not around reading files. Compiles are counted from one case to the next, so the first
//! case's counts include compiles during loading.

mod against;

use crate::cases;
use crate::inputs::{Call, InputArguments};
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::statistics::quantile;
use crate::timing::TimingArguments;
use against::{Against, Peer};
use anyhow::{Error, bail};
use clap::Args;
use kiln::{CompilationStats, Model, Outputs, Tensor, diagnose};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// If the first call, excluding compilation, is slower than this, it is the only one: a median of slow calls is not worth
/// the wait.
const SLOW: Duration = Duration::from_secs(2);

/// Measures a model's calls.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// How long to repeat each case
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    min_time: Duration,
    /// Call each case once, as a stream of shapes
    #[arg(long)]
    once: bool,
    /// Call a case only when a line arrives on standard input, for interleaving with another program
    #[arg(long, requires = "once")]
    paced: bool,
    /// Write each output of a case's last call to FOLDER/CASE/OUTPUT.npy
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also measure another runtime on the same inputs, in interleaved rounds, and say which is faster
    #[arg(long, value_name = "RUNTIME", conflicts_with_all = ["once", "json"])]
    against: Option<Peer>,
    /// The Python interpreter for `--against`
    #[arg(
        long,
        value_name = "FILE",
        default_value = "python3",
        requires = "against"
    )]
    python: PathBuf,
    /// Fail if anything would have to be compiled
    #[arg(long)]
    no_compile: bool,
    #[command(flatten)]
    timing: TimingArguments,
    /// Print a JSON line per case
    #[arg(long)]
    json: bool,
}

/// The measurements of a case; times in milliseconds.
#[derive(Debug, Serialize)]
struct Measurement<'a> {
    case: &'a str,
    /// The device.
    device: String,
    /// Loading the model, once for all cases.
    load_ms: f64,
    /// The case's first call.
    first_ms: f64,
    median_ms: f64,
    min_ms: f64,
    p99_ms: f64,
    /// The number of calls, including the first.
    calls: usize,
    compiles: u64,
    /// Compile time for the first call, over all compile threads.
    compile_ms: f64,
    /// How long calls waited for code: compiled, or loaded from a store.
    blocked_ms: f64,
    /// Steps that were interpreted because code was not ready in time.
    fallbacks: u64,
    memory_hits: u64,
    disk_hits: u64,
    misses: u64,
    /// The peak memory of this process.
    peak_rss_mb: f64,
}

impl Bench {
    pub(crate) fn run(mut self) -> Result<Failures, Error> {
        if self.no_compile {
            self.model.forbid_compiling();
        }
        let bar = Bar::new();
        let (model, load) = self.model.load(&bar, &self.timing)?;
        let mut failures = Failures::default();
        if !self.json {
            let (time, device) = (milliseconds(load), model.device());
            report::line(format!("loaded in {time:.1} ms, on device {device}"))?;
        }
        let mut before = CompilationStats::default();
        let mut lines = std::io::stdin().lines();
        for call in self.inputs.calls()? {
            if self.paced && lines.next().is_none() {
                break;
            }
            let measured = self.measure(&model, &call, load, &bar, &before);
            before = model.compilation_stats();
            let done = match measured {
                Ok(measurement) => self.print(&measurement),
                Err(error) => {
                    failures.add(call.title(), &error);
                    continue;
                }
            };
            done?;
            if self.against.is_some() {
                report::line(self.compare(&model, &call)?)?;
            }
        }
        self.timing.write(&model)?;
        Ok(failures)
    }

    fn measure<'a>(
        &self,
        model: &Model,
        call: &'a Call<'_>,
        load: Duration,
        bar: &Bar,
        before: &CompilationStats,
    ) -> Result<Measurement<'a>, Error> {
        let inputs = call.inputs(model)?;
        let compiled_before = diagnose::compile_records(model).len();
        let first = timed(model, &inputs);
        bar.finish();
        let (first, outputs) = first?;
        let mut outputs = Some(outputs);
        let compile = compile_time(model, compiled_before);
        let once = self.once || first.saturating_sub(compile) > SLOW;
        let mut samples = Vec::new();
        if once {
            samples.push(first);
        } else {
            let start = Instant::now();
            while samples.is_empty() || start.elapsed() < self.min_time {
                // Their memory is reused by the next call.
                drop(outputs.take());
                let (time, given) = timed(model, &inputs)?;
                samples.push(time);
                outputs = Some(given);
            }
        }
        let repeated = if once { 0 } else { samples.len() };
        samples.sort();
        if let (Some(folder), Some(outputs)) = (&self.out, &outputs) {
            cases::write(&folder.join(call.name()), outputs)?;
        }
        let stats = model.compilation_stats();
        let compiles = stats.compilations.saturating_sub(before.compilations);
        if self.no_compile && compiles > 0 {
            bail!("expected no compile, found {compiles}: run without --no-compile");
        }
        Ok(Measurement {
            case: call.title(),
            device: model.device().to_string(),
            load_ms: milliseconds(load),
            first_ms: milliseconds(first),
            median_ms: quantile(&samples, 0.5),
            min_ms: quantile(&samples, 0.0),
            p99_ms: quantile(&samples, 0.99),
            calls: 1 + repeated,
            compiles,
            compile_ms: milliseconds(compile),
            blocked_ms: milliseconds(stats.blocked.saturating_sub(before.blocked)),
            fallbacks: stats.fallbacks.saturating_sub(before.fallbacks),
            memory_hits: stats
                .cache
                .memory_hits
                .saturating_sub(before.cache.memory_hits),
            disk_hits: stats.cache.tier_hits.saturating_sub(before.cache.tier_hits),
            misses: stats.misses.saturating_sub(before.misses),
            peak_rss_mb: peak_rss_mb(),
        })
    }

    /// Calls of both sides in turns, and a sentence about them.
    fn compare(&self, model: &Model, call: &Call<'_>) -> Result<String, Error> {
        against::check_model(self.model.path())?;
        let inputs = call.inputs(model)?;
        let threads = match self.model.thread_counts(&[]).as_slice() {
            [0] | [] => std::thread::available_parallelism().map_or(1, usize::from),
            [threads, ..] => *threads,
        };
        let mut peer = Against::start(&self.python, self.model.path(), &inputs, threads)?;
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let start = Instant::now();
        // Twice the time, as there are two sides.
        while own.len() < 3 || start.elapsed() < 2 * self.min_time {
            own.push(timed(model, &inputs)?.0);
            others.push(peer.call()?);
        }
        own.sort();
        others.sort();
        let (own, others) = (quantile(&own, 0.5), quantile(&others, 0.5));
        Ok(against::verdict(call.title(), own, others, &peer.version))
    }

    fn print(&self, measurement: &Measurement<'_>) -> Result<(), Error> {
        if self.json {
            return report::line(serde_json::to_string(measurement)?);
        }
        let Measurement {
            case,
            first_ms,
            median_ms,
            min_ms,
            p99_ms,
            calls,
            compiles,
            compile_ms,
            peak_rss_mb,
            ..
        } = measurement;
        report::line(format!(
            "{case:32} median {median_ms:9.2} ms  min {min_ms:9.2}  p99 {p99_ms:9.2}  first {first_ms:9.2}  calls {calls:5}  compiled {compiles:3} kernels in {compile_ms:.1} ms  peak {peak_rss_mb:.0} MB"
        ))
    }
}

fn timed(model: &Model, inputs: &[(String, Tensor)]) -> Result<(Duration, Outputs), Error> {
    let start = Instant::now();
    // Not interruptible: Ctrl-C ends the process.
    let outputs = model.run(inputs)?;
    Ok((start.elapsed(), outputs))
}

/// Compile time of the compiles after the first `before` ones, all threads together.
fn compile_time(model: &Model, before: usize) -> Duration {
    let records = diagnose::compile_records(model);
    records.iter().skip(before).map(|record| record.total).sum()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The peak resident memory of this process; 0 if the system does not report it.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<f64>().ok());
    kib.map_or(0.0, |kib| kib * 1024.0 / 1e6)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_seconds_and_not_negative() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(seconds("-1").is_err());
        assert!(seconds("soon").is_err());
    }
}
