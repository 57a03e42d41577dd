//! `kiln profile`: the time of each step of a call, as a table.
//!
//! The model is called a few times first, so that nothing is compiled during the measurement; then each step's time is its
//! median over the following calls.

use crate::inputs::{Call, InputArguments};
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::statistics::quantile;
use anyhow::Error;
use clap::Args;
use kiln::Model;
use kiln::diagnose::{self, StepProfile};
use serde::Serialize;
use std::time::Duration;

/// How many nodes of a step a line of the table names.
const NODES: usize = 3;

/// Measures the steps of a call.
#[derive(Args, Debug)]
pub(crate) struct Profile {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// The number of calls to take the median of
    #[arg(long, value_name = "CALLS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// How many steps to show, the slowest first; 0 shows all, in order of execution
    #[arg(long, value_name = "STEPS", default_value_t = 0)]
    top: usize,
    /// Print a JSON line per step
    #[arg(long)]
    json: bool,
    /// Instead, show fusion's estimate for each fused kernel next to the measured gain over a plan in which every op is
    /// a separate step
    #[cfg(feature = "llvm")]
    #[arg(long, conflicts_with_all = ["json", "top"])]
    estimates: bool,
    /// Instead, show the rates of fusion's cost model next to this machine's measured rates, over all inputs
    #[cfg(feature = "llvm")]
    #[arg(long, conflicts_with_all = ["json", "top", "estimates"])]
    rates: bool,
}

/// A step, measured.
#[derive(Debug, Serialize)]
struct Row<'a> {
    case: &'a str,
    number: usize,
    step: String,
    kind: &'static str,
    class: Option<&'static str>,
    variant: Option<String>,
    /// The nodes of the source model that it computes.
    nodes: Vec<String>,
    ms: f64,
    bytes: u64,
    operations: Option<f64>,
}

impl Profile {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let bar = Bar::new();
        // The interpreter has no steps to measure.
        let (model, _) = self
            .model
            .load_with(&bar, |loading| self.model.compile_for(loading))?;
        #[cfg(feature = "llvm")]
        if self.estimates || self.rates {
            return self.run_estimates(&model);
        }
        let mut failures = Failures::default();
        for call in self.inputs.calls()? {
            let rows = self.measure(&model, &call);
            bar.finish();
            match rows {
                Ok(rows) => self.print(&call, rows)?,
                Err(error) => failures.add(call.title(), &error),
            }
        }
        Ok(failures)
    }

    /// The cost model next to the measurements.
    #[cfg(feature = "llvm")]
    fn run_estimates(&self, model: &Model) -> Result<Failures, Error> {
        let mut failures = Failures::default();
        let mut rates = crate::estimates::Rates::default();
        for call in self.inputs.calls()? {
            let done = call.inputs(model).and_then(|inputs| {
                if self.rates {
                    return rates.add(model, &self.model, &inputs, self.calls);
                }
                crate::estimates::print(call.title(), model, &self.model, &inputs, self.calls)
            });
            if let Err(error) = done {
                failures.add(call.title(), &error);
            }
        }
        if self.rates {
            rates.print()?;
        }
        Ok(failures)
    }

    fn measure<'a>(&self, model: &Model, call: &'a Call<'_>) -> Result<Vec<Row<'a>>, Error> {
        let inputs = call.inputs(model)?;
        for _ in 0..2 {
            model.run(&inputs)?;
        }
        let mut calls: Vec<Vec<StepProfile>> = Vec::new();
        for _ in 0..self.calls {
            let mut steps = Vec::new();
            model.call(&inputs).profile(&mut steps).run()?;
            calls.push(steps);
        }
        let Some(last) = calls.last() else {
            return Ok(Vec::new());
        };
        // A model whose graph depends on its calls has no single graph in which to look up the nodes.
        let nodes = diagnose::step_nodes(model, last).unwrap_or_default();
        let rows = last.iter().enumerate().map(|(number, step)| {
            // Loops may run a different number of steps in each call; otherwise the steps at one position are the same.
            let times = calls
                .iter()
                .filter_map(|steps| Some(steps.get(number)?.time));
            let mut times: Vec<Duration> = times.collect();
            times.sort();
            Row {
                case: call.name(),
                number,
                step: step.step.clone(),
                kind: step.kind,
                class: step.class,
                variant: step.variant.clone(),
                nodes: nodes.get(number).cloned().unwrap_or_default(),
                ms: quantile(&times, 0.5),
                bytes: step.bytes,
                operations: step.operations,
            }
        });
        Ok(rows.collect())
    }

    fn print(&self, call: &Call<'_>, mut rows: Vec<Row<'_>>) -> Result<(), Error> {
        // The sum of no times is -0.
        let total = rows.iter().map(|row| row.ms).sum::<f64>() + 0.0;
        let n_steps = rows.len();
        if self.top > 0 {
            rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
            rows.truncate(self.top);
        }
        if self.json {
            return rows
                .iter()
                .try_for_each(|row| report::line(serde_json::to_string(row)?));
        }
        report::line(format!("{}: {n_steps} steps, {total:.3} ms", call.title()))?;
        report::line(format!(
            "{:>5} {:>9} {:>5} {:>9} {:>9} {:>7} {:>8}  {:9} {:11} {:40} schedule  nodes of the model",
            "step", "ms", "%", "MB", "Mop", "GB/s", "GFLOP/s", "kind", "class", "name",
        ))?;
        for row in &rows {
            report::line(row.text(total))?;
        }
        Ok(())
    }
}

impl Row<'_> {
    fn text(&self, total: f64) -> String {
        let seconds = self.ms / 1e3;
        let rate = |amount: f64| {
            if seconds > 0.0 {
                format!("{:.2}", amount / seconds / 1e9)
            } else {
                "-".to_owned()
            }
        };
        let share = if total > 0.0 {
            self.ms / total * 100.0
        } else {
            0.0
        };
        let operations =
            |show: &dyn Fn(f64) -> String| self.operations.map_or_else(|| "-".to_owned(), show);
        format!(
            "{:>5} {:>9.4} {:>5.1} {:>9.3} {:>9} {:>7} {:>8}  {:9} {:11} {:40} {}{}",
            self.number,
            self.ms,
            share,
            self.bytes as f64 / 1e6,
            operations(&|count| format!("{:.3}", count / 1e6)),
            rate(self.bytes as f64),
            operations(&|count| rate(count)),
            self.kind,
            self.class.unwrap_or("-"),
            self.step,
            self.variant.as_deref().unwrap_or("-"),
            self.nodes_text(),
        )
    }

    /// The first nodes, and how many more there are.
    fn nodes_text(&self) -> String {
        let shown: Vec<_> = self.nodes.iter().take(NODES).collect();
        let Some(list) = shown
            .iter()
            .map(|node| node.escape_debug().to_string())
            .reduce(|list, node| format!("{list}, {node}"))
        else {
            return String::new();
        };
        match self.nodes.len() - shown.len() {
            0 => format!("  {list}"),
            more => format!("  {list} and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_time() {
        let mut row = Row {
            case: "",
            number: 3,
            step: "matmul_relu".to_owned(),
            kind: "kernel",
            class: Some("contraction"),
            variant: Some("contraction(rows=4)".to_owned()),
            nodes: ["Mul_1", "Relu"].map(str::to_owned).to_vec(),
            ms: 2.0,
            bytes: 8_000_000,
            operations: Some(6e6),
        };
        let text = row.text(4.0);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words[..7],
            ["3", "2.0000", "50.0", "8.000", "6.000", "4.00", "3.00"]
        );
        assert!(text.ends_with("contraction(rows=4)  Mul_1, Relu"), "{text}");
        let more = ["a", "b"].map(str::to_owned);
        row.nodes.extend(more);
        assert_eq!(row.nodes_text(), "  Mul_1, Relu, a and 1 more");
        row.ms = 0.0;
        row.operations = None;
        let text = row.text(0.0);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[4..7], ["-", "-", "-"]);
    }
}
