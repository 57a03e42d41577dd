//! `kiln run`: calls a model on case folders, or on single files.

use crate::cases;
use crate::inputs::{Call, InputArguments};
use crate::interrupts::run_interruptibly;
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::statistics::Statistics;
use crate::timing::TimingArguments;
use anyhow::Error;
use clap::Args;
use kiln::{Model, Outputs};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Runs a model and writes or describes its outputs.
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Where outputs are written: DIR/CASE/OUTPUT.npy, or DIR/OUTPUT.npy for a single call
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fail if anything would have to be compiled
    #[arg(long)]
    no_compile: bool,
    /// How many milliseconds a call may take, including compiling
    #[arg(long, value_name = "MS")]
    time_limit: Option<u64>,
    #[command(flatten)]
    timing: TimingArguments,
    /// Write the shapes that occurred, and the time they took, for `kiln compile --profile`
    #[arg(long, value_name = "FILE")]
    save_profile: Option<PathBuf>,
    /// Also print the elements of outputs, in nested brackets; long axes are shortened
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// Print a JSON line per call
    #[arg(long)]
    json: bool,
}

/// The output for a call.
#[derive(Serialize)]
struct CallReport<'a> {
    case: &'a str,
    ms: f64,
    outputs: Vec<OutputReport<'a>>,
}

#[derive(Serialize)]
struct OutputReport<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: &'a [usize],
    #[serde(flatten)]
    statistics: Statistics,
}

impl Run {
    pub(crate) fn run(mut self) -> Result<Failures, Error> {
        if self.no_compile {
            self.model.forbid_compiling();
        }
        let bar = Bar::new();
        let (model, _) = self.model.load(&bar, &self.timing)?;
        let mut failures = Failures::default();
        for call in self.inputs.calls()? {
            if let Err(error) = self.call(&model, &call, &bar) {
                if call.name().is_empty() {
                    return Err(error);
                }
                failures.add(call.name(), &error);
            }
        }
        self.timing.write(&model)?;
        if let Some(path) = &self.save_profile {
            std::fs::write(path, model.shape_profile()?.to_json())?;
        }
        Ok(failures)
    }

    fn call(&self, model: &Model, given: &Call<'_>, bar: &Bar) -> Result<(), Error> {
        let inputs = given.inputs(model)?;
        let start = Instant::now();
        let mut call = model.call(&inputs);
        if let Some(limit) = self.time_limit {
            call = call.time_limit(Duration::from_millis(limit));
        }
        let outputs = run_interruptibly(call);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        bar.finish();
        let outputs = outputs?;
        if let Some(folder) = &self.out {
            cases::write(&folder.join(given.name()), &outputs)?;
        }
        self.print(&CallReport {
            case: given.name(),
            ms,
            outputs: describe(&outputs)?,
        })?;
        for (name, tensor) in outputs.iter().filter(|_| self.values) {
            report::line(format!("{}:\n{tensor}", name.escape_debug()))?;
        }
        Ok(())
    }

    fn print(&self, call: &CallReport<'_>) -> Result<(), Error> {
        if self.json {
            return report::line(serde_json::to_string(call)?);
        }
        let case = if call.case.is_empty() {
            ""
        } else {
            &format!("{}: ", call.case)
        };
        report::line(format!("{case}{:.1} ms", call.ms))?;
        for output in &call.outputs {
            let sizes: Vec<_> = output.shape.iter().map(ToString::to_string).collect();
            let ty = format!("{}[{}]", output.dtype, sizes.join(", "));
            let number =
                |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.6}"));
            let Statistics {
                min,
                max,
                mean,
                not_finite,
            } = &output.statistics;
            report::line(format!(
                "  {}: {ty}  min {}  max {}  mean {}  not finite {not_finite}",
                output.name.escape_debug(),
                number(*min),
                number(*max),
                number(*mean),
            ))?;
        }
        Ok(())
    }
}

fn describe(outputs: &Outputs) -> Result<Vec<OutputReport<'_>>, Error> {
    let reports = outputs.iter().map(|(name, tensor)| {
        let statistics = Statistics::of(tensor)?;
        Ok(OutputReport {
            name,
            dtype: tensor.dtype().name(),
            shape: tensor.shape(),
            statistics,
        })
    });
    reports.collect()
}
