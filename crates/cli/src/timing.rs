//! Timing output: a summary on standard error after the first call, and files for programs to read.

use crate::progress::Bar;
use crate::report;
use anyhow::{Context, Error};
use clap::Args;
use kiln::timing::{Filter, Report, Verbosity};
use kiln::{Model, Options};
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
    /// The options for these arguments.
    pub(crate) fn apply(&self, options: Options, bar: &Bar) -> Options {
        let bar = bar.clone();
        let tell = move |report: &Report| {
            bar.finish();
            report::note(report.to_text().trim_end());
        };
        let options = options
            .timing(self.timing)
            .timing_filter(self.timing_filter.clone())
            .on_timing(tell);
        match self.trace {
            Some(_) => options.timing_records(SPANS),
            None => options,
        }
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
