//! `kiln profile --rates`: the parameters of fusion's cost model next to this machine's measured rates.
//!
//! Every kernel of both programs counts for the kind of work that the model considers its bound. Its rate is the amount of
//! that work over the time that remains after the model's overhead; the table has the median of all cases.

use super::measure::{Measured, measure};
use crate::inputs::Inputs;
use crate::model::ModelArguments;
use crate::report;
use anyhow::Error;
use kiln::Model;
use kiln::internals::fusion::{FusionCandidateAnalyzer, FusionOptions, WorkKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// Kernels measured so far, by their bound.
#[derive(Default)]
pub(crate) struct Rates {
    by_kind: BTreeMap<WorkKind, Samples>,
    /// The shortest kernel.
    launch: Option<Duration>,
}

/// Kernels with one bound.
#[derive(Default)]
struct Samples {
    /// Rates per nanosecond, of kernels that do enough work for a reliable rate.
    rates: Vec<f64>,
    /// Total seconds, and the model's estimate.
    seconds: f64,
    expected: f64,
}

impl Rates {
    /// Adds the kernels of a call.
    pub(crate) fn add(
        &mut self,
        model: &Model,
        arguments: &ModelArguments,
        inputs: &Inputs,
        calls: u32,
    ) -> Result<(), Error> {
        self.count(&measure(model, arguments, inputs, calls)?);
        Ok(())
    }

    fn count(&mut self, measured: &Measured) {
        let analyzer = FusionCandidateAnalyzer::new(&measured.graph, FusionOptions::new());
        for (ops, profile) in measured.fused.iter().chain(&measured.apart) {
            if profile.class.is_none() {
                continue;
            }
            let effort = analyzer.effort(ops);
            let nanoseconds = profile.time.as_secs_f64() * 1e9;
            let shortest = self.launch.unwrap_or(profile.time);
            self.launch = Some(shortest.min(profile.time));
            let samples = self.by_kind.entry(effort.kind).or_default();
            samples.seconds += nanoseconds / 1e9;
            samples.expected += (effort.nanoseconds + effort.overhead) / 1e9;
            let left = nanoseconds - effort.overhead;
            if effort.nanoseconds > effort.overhead && left > 0.0 {
                samples.rates.push(effort.amount / left);
            }
        }
    }

    /// Prints the table.
    pub(crate) fn print(mut self) -> Result<(), Error> {
        report::line(format!(
            "{:15} {:>7} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}",
            "work", "kernels", "figure", "median", "10 %", "90 %", "model ms", "ms"
        ))?;
        for (kind, samples) in &mut self.by_kind {
            samples.rates.sort_by(f64::total_cmp);
            let at = |tenths: usize| {
                let place = samples.rates.len() * tenths / 10;
                samples
                    .rates
                    .get(place)
                    .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
            };
            report::line(format!(
                "{kind:15} {:>7} {:>8.1} {:>8} {:>8} {:>8} {:>10.3} {:>10.3}",
                samples.rates.len(),
                kiln::internals::fusion::Rates::CPU.per_nanosecond(*kind),
                at(5),
                at(1),
                at(9),
                samples.expected * 1e3,
                samples.seconds * 1e3,
            ))?;
        }
        let launch = self.launch.unwrap_or_default();
        report::line(format!(
            "amounts per nanosecond: bytes, operations, multiply-adds; the shortest kernel took {launch:.1?}"
        ))
    }
}
