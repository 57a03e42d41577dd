//! `kiln compare`: compares compiled code with the interpreter, or a reduced precision with f32, on the user's inputs.
//!
//! Every output is compared with the interpreter with all floats as `f64`. If one differs, the first wrong value of the
//! graph is named, with its surroundings, and a reproduction is written to files. Runs that differ only in the number of
//! threads must agree in every bit.

mod precision;

use crate::inputs::{Call, InputArguments};
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::repro::ReproWriter;
use anyhow::{Error, anyhow};
use clap::{Args, ValueEnum};
use kiln::Model;
use kiln::diagnose::{self, Comparison, Difference, Reference};
use serde::Serialize;
use std::path::PathBuf;

/// Compares compiled code with the interpreter.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Thread counts to run with, separated by commas; by default, that of --threads
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    thread_counts: Vec<usize>,
    /// Instruction-set levels to compile for, separated by commas, or `all` for every level of the device; by default,
    /// that of --target
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    targets: Vec<String>,
    /// What to compare with: `interpreter`, the same graph interpreted; `f32`, the model without `--precision`
    #[arg(long, value_name = "WHAT", default_value = "interpreter")]
    against: Against,
    /// Where to write a reproduction of the first wrong value, a few ops and their inputs; `off` for nowhere
    #[arg(long, value_name = "DIR", default_value = "kiln-repro")]
    repro: PathBuf,
    /// Print a JSON line per output
    #[arg(long)]
    json: bool,
}

/// What is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Against {
    /// The interpreter.
    Interpreter,
    /// The model without `--precision`.
    F32,
}

/// A configuration of the compiled model.
struct Setup {
    target: Option<String>,
    threads: usize,
    model: Model,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    target: Option<&'a str>,
    threads: usize,
    output: &'a str,
    error: f64,
    declared_error: f64,
    verdict: String,
}

impl Compare {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let bar = Bar::new();
        if self.against == Against::F32 {
            return precision::compare(&self.model, &self.inputs, self.json, &bar);
        }
        let setups = self.setups(&bar)?;
        let Some(first) = setups.first() else {
            return Err(anyhow!(
                "expected at least one target and one number of threads"
            ));
        };
        let mut failures = Failures::default();
        let mut repros = ReproWriter::new(&self.repro);
        for call in self.inputs.calls()? {
            let reference = call
                .inputs(&first.model)
                .and_then(|inputs| Ok(diagnose::reference(&first.model, &inputs)?));
            bar.finish();
            match reference {
                Ok(reference) => {
                    self.call(&call, &reference, &setups, &bar, &mut failures, &mut repros)?;
                }
                Err(error) => failures.add(call.title(), &error),
            }
        }
        Ok(failures)
    }

    /// A model per target and number of threads.
    fn setups(&self, bar: &Bar) -> Result<Vec<Setup>, Error> {
        let mut setups = Vec::new();
        for target in self.model.targets(&self.targets)? {
            for threads in self.model.thread_counts(&self.thread_counts) {
                let (model, _) = self.model.load_with(bar, |loading| {
                    self.model.compile_for(loading);
                    loading.threads = threads;
                    loading.target = target.clone();
                })?;
                setups.push(Setup {
                    target: target.clone(),
                    threads,
                    model,
                });
            }
        }
        Ok(setups)
    }

    fn call(
        &self,
        call: &Call,
        reference: &Reference,
        setups: &[Setup],
        bar: &Bar,
        failures: &mut Failures,
        repros: &mut ReproWriter,
    ) -> Result<(), Error> {
        let mut before: Option<(&Setup, Comparison)> = None;
        for setup in setups {
            let title = setup.title(call);
            let comparison = diagnose::compare(&setup.model, reference);
            bar.finish();
            let comparison = match comparison {
                Ok(comparison) => comparison,
                Err(error) => {
                    failures.add(&title, &error.into());
                    continue;
                }
            };
            self.print(call, setup, &title, &comparison)?;
            if !comparison.agrees() {
                failures.add(&title, &anyhow!("compiled code and interpreter differ"));
                repros.write(&comparison, setup.target.as_deref(), setup.threads)?;
            }
            if let Some((other, earlier)) = &before
                && other.target == setup.target
                && let Some(name) = earlier.first_unlike(&comparison)?
            {
                let threads = (other.threads, setup.threads);
                let error = anyhow!(
                    "{name} differs between {} and {} threads",
                    threads.0,
                    threads.1
                );
                failures.add(&title, &error);
            }
            before = Some((setup, comparison));
        }
        Ok(())
    }

    fn print(
        &self,
        call: &Call,
        setup: &Setup,
        title: &str,
        comparison: &Comparison,
    ) -> Result<(), Error> {
        for output in &comparison.outputs {
            if self.json {
                report::line(serde_json::to_string(&Line {
                    case: call.name(),
                    target: setup.target.as_deref(),
                    threads: setup.threads,
                    output: &output.name,
                    error: output.error,
                    declared_error: output.declared_error,
                    verdict: output.verdict.to_string(),
                })?)?;
                continue;
            }
            report::line(format!(
                "{title:44} {:18} error {:.1e}  plain rounding {:.1e}  {}",
                output.verdict,
                output.error,
                output.declared_error,
                output.name.escape_debug(),
            ))?;
        }
        if let Some(at) = &comparison.amplified_at {
            self.context(
                "every step is right in isolation; the model amplifies rounding at",
                at,
            )?;
        }
        if let Some(difference) = &comparison.first_difference {
            self.context("the first value computed wrongly", difference)?;
        } else if !comparison.agrees() {
            report::note("  the difference goes away when the values between steps are kept");
        }
        Ok(())
    }

    /// A value's surroundings: on standard error if standard output is JSON.
    fn context(&self, title: &str, difference: &Difference) -> Result<(), Error> {
        let text = format!("  {title}: {difference}");
        let text = text.trim_end().replace('\n', "\n  ");
        if self.json {
            report::note(text);
            return Ok(());
        }
        report::line(text)
    }
}

impl Setup {
    fn title(&self, call: &Call) -> String {
        let target = self.target.as_deref().unwrap_or("host");
        let threads = match self.threads {
            0 => "all threads".to_owned(),
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("{}, {target}, {threads}", call.title())
    }
}
