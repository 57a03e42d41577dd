//! `kiln report`: one call of a model in detail, as an HTML page.

use crate::inputs::InputArguments;
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::{Context, Error};
use clap::Args;
use kiln::diagnose::CallReport;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a page about a call of a model.
#[derive(Args, Debug)]
pub(crate) struct Page {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// The output file; with several cases, one file per case: report.html becomes report-CASE.html
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// The number of calls to take medians of
    #[arg(long, value_name = "CALLS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// Also print the report as a JSON line per case
    #[arg(long)]
    json: bool,
}

impl Page {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let bar = Bar::new();
        // The interpreter has no steps to measure.
        let (model, _) = self
            .model
            .load_with(&bar, |loading| self.model.compile_for(loading))?;
        let calls = self.inputs.calls()?;
        let mut failures = Failures::default();
        for call in &calls {
            let inputs = call.inputs(&model);
            bar.begin("measuring calls");
            let report = inputs
                .and_then(|inputs| Ok(CallReport::measure(&model, &inputs, self.calls as usize)?));
            bar.finish();
            let done = report.and_then(|report| {
                let file = match calls.len() {
                    1 => self.output.clone(),
                    _ => of_case(&self.output, call.name()),
                };
                self.write(&report, &file)
            });
            if let Err(error) = done {
                if calls.len() == 1 {
                    return Err(error);
                }
                failures.add(call.title(), &error);
            }
        }
        Ok(failures)
    }

    fn write(&self, report: &CallReport, file: &Path) -> Result<(), Error> {
        fs::write(file, report.to_html())
            .with_context(|| format!("cannot write {}", file.display()))?;
        if self.json {
            return report::line(serde_json::to_string(report)?);
        }
        report::line(format!(
            "wrote {}: {} steps, {:.2} ms a call",
            file.display(),
            report.steps.len(),
            report.call_ms
        ))?;
        for advice in &report.advice {
            report::line(format!("  {}: {}", advice.title, advice.because))?;
        }
        Ok(())
    }
}

/// `report.html` of the case `a` is `report-a.html`.
fn of_case(file: &Path, case: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}-{case}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_a_page_of_its_own() {
        assert_eq!(
            of_case(Path::new("out/report.html"), "a"),
            Path::new("out/report-a.html")
        );
    }
}
