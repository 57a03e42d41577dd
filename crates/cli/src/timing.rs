//! Timing output: a summary on standard error after the first call, and files for programs to read.

use crate::progress::Bar;
use crate::report;
use anyhow::{Context, Error};
use clap::Args;
use kiln::timing::{Filter, Report, TimingOptions, Verbosity};
use kiln::{Model, Observation};
use std::fs;
use std::path::PathBuf;

/// The number of spans that are kept for a trace.
const SPANS: usize = 1 << 18;

/// How much is timed, and where it is reported.
#[derive(Args, Debug)]
pub(crate) struct TimingArguments {
    /// How much is timed: off; default, a row per category; verbose, one per kernel and step; debug, every span. The
    /// report goes to standard error after the first call. Without a level, verbose
    #[arg(
        long,
        value_name = "LEVEL",
        default_value_t = Verbosity::Default,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "verbose"
    )]
    timing: Verbosity,
    /// What reports and traces show: categories and names, as in compile,name=*matmul*
    #[arg(long, value_name = "FILTER", default_value_t)]
    timing_filter: Filter,
    /// Write the report of all calls to a file, as JSON
    #[arg(long, value_name = "FILE")]
    timing_json: Option<PathBuf>,
    /// Write every span to a file that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl TimingArguments {
    /// The observation with these arguments applied.
    pub(crate) fn apply(&self, observation: Observation, bar: &Bar) -> Observation {
        let bar = bar.clone();
        let tell = move |report: &Report| {
            bar.finish();
            report::note(report.to_text().trim_end());
        };
        let mut timing = TimingOptions::new()
            .verbosity(self.timing)
            .filter(self.timing_filter.clone());
        if self.trace.is_some() {
            timing = timing.records(SPANS);
        }
        observation.timing(timing).on_timing(tell)
    }

    /// Writes the requested files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub(crate) fn write(&self, model: &Model) -> Result<(), Error> {
        let timing = model.timing();
        let write = |path: &PathBuf, text: String| {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        if let Some(path) = &self.timing_json {
            write(path, timing.report().to_json()?)?;
        }
        if let Some(path) = &self.trace {
            write(path, timing.trace().to_json()?)?;
        }
        Ok(())
    }
}
