//! `kiln profile --estimates`: fusion's estimate for each kernel of several ops next to the measured gain.
//!
//! Two programs are made from the model's graph, one with fusion's plan and one in which every op is a separate step,
//! and both run interleaved on the same inputs, on one runtime. A kernel's measured speed-up is the time of its ops as
//! separate steps divided by its own time, each the best of all calls; the estimate is fusion's, for the sizes of the
//! call. The rank correlation of the two shows how well the cost model orders fusions.

mod measure;
mod rank;
mod rates;

pub(crate) use rates::Rates;

use crate::inputs::Inputs;
use crate::model::ModelArguments;
use crate::report;
use anyhow::Error;
use kiln::Model;
use kiln::internals::fusion::{FusionCandidateAnalyzer, FusionOptions};
use measure::{Measured, measure};
use rank::rank_correlation;
use std::time::Duration;

/// A kernel of several ops.
struct Estimate {
    step: String,
    class: &'static str,
    ops: usize,
    /// Fusion's estimates of the times of the separate ops and of the kernel.
    estimated: f64,
    /// The ops' separate steps, and their time.
    steps_apart: usize,
    apart: Duration,
    together: Duration,
}

impl Estimate {
    fn measured(&self) -> f64 {
        self.apart.as_secs_f64() / self.together.as_secs_f64().max(1e-9)
    }
}

/// Measures a model on some inputs, and prints the table.
pub(crate) fn print(
    title: &str,
    model: &Model,
    arguments: &ModelArguments,
    inputs: &Inputs,
    calls: u32,
) -> Result<(), Error> {
    let estimates = estimates(&measure(model, arguments, inputs, calls)?);
    report::line(format!(
        "{title}: {} kernels of several ops, estimated beside measured",
        estimates.len()
    ))?;
    report::line(format!(
        "{:>9} {:>9} {:>5} {:>6} {:>10} {:>10}  {:11} name",
        "estimated", "measured", "ops", "steps", "apart ms", "one ms", "class"
    ))?;
    for estimate in &estimates {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        report::line(format!(
            "{:>8.2}x {:>8.2}x {:>5} {:>6} {:>10.4} {:>10.4}  {:11} {}",
            estimate.estimated,
            estimate.measured(),
            estimate.ops,
            estimate.steps_apart,
            ms(estimate.apart),
            ms(estimate.together),
            estimate.class,
            estimate.step,
        ))?;
    }
    let estimated: Vec<f64> = estimates
        .iter()
        .map(|estimate| estimate.estimated)
        .collect();
    let measured: Vec<f64> = estimates.iter().map(Estimate::measured).collect();
    report::line(match rank_correlation(&estimated, &measured) {
        Some(correlation) => format!("rank correlation (Spearman): {correlation:.2}"),
        None => "rank correlation (Spearman): none, there is nothing to rank".to_owned(),
    })
}

fn estimates(measured: &Measured) -> Vec<Estimate> {
    let analyzer = FusionCandidateAnalyzer::new(&measured.graph, FusionOptions::new());
    let mut estimates = Vec::new();
    for (ops, profile) in &measured.fused {
        let Some(class) = profile.class else { continue };
        let parts: Vec<_> = measured
            .apart
            .iter()
            .filter(|(part, _)| part.iter().all(|op| ops.contains(op)))
            .collect();
        // Views have no step; an op fused only with views is not a fusion.
        if ops.len() < 2 || parts.len() < 2 {
            continue;
        }
        let Ok(benefit) = analyzer.analyze_benefit(ops) else {
            continue;
        };
        estimates.push(Estimate {
            step: profile.step.clone(),
            class,
            ops: ops.len(),
            estimated: benefit.estimated_speedup,
            steps_apart: parts.len(),
            apart: parts.iter().map(|(_, part)| part.time).sum(),
            together: profile.time,
        });
    }
    estimates
}
