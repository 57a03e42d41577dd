//! `kiln compare --against f32`: the error of a reduced precision, output by output and product by product.

use crate::inputs::InputArguments;
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::{Context, Error};
use kiln::diagnose::{self, PrecisionComparison};
use serde::Serialize;

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Line<'a> {
    Output {
        case: &'a str,
        name: &'a str,
        error: f64,
    },
    Product {
        case: &'a str,
        name: &'a str,
        format: String,
        error: f64,
        weight_error: Option<f64>,
        bytes_before: usize,
        bytes_after: usize,
    },
    Unchanged {
        case: &'a str,
        name: &'a str,
        format: String,
        reason: String,
    },
}

/// Runs the model with its precision and without.
pub(super) fn compare(
    arguments: &ModelArguments,
    inputs: &InputArguments,
    json: bool,
    bar: &Bar,
) -> Result<Failures, Error> {
    let precision = arguments
        .precision()?
        .context("expected --precision FORMAT, which is compared with f32")?;
    let (model, _) = arguments.load_with(bar, |loading| {
        arguments.compile_for(loading);
        loading.precision = None;
    })?;
    let mut failures = Failures::default();
    for call in inputs.calls()? {
        let comparison = call
            .inputs(&model)
            .and_then(|inputs| Ok(diagnose::compare_precision(&model, &precision, &inputs)?));
        bar.finish();
        match comparison {
            Ok(comparison) if json => print_json(call.name(), &comparison)?,
            Ok(comparison) => print(call.title(), &comparison)?,
            Err(error) => failures.add(call.title(), &error),
        }
    }
    Ok(failures)
}

fn print(title: &str, comparison: &PrecisionComparison) -> Result<(), Error> {
    for (name, error) in &comparison.outputs {
        report::line(format!(
            "{title:44} error {error:.1e}  {}",
            name.escape_debug()
        ))?;
    }
    for layer in &comparison.layers {
        let change = &layer.change;
        let weights = match change.weight_error {
            Some(error) => format!("  weights {error:.1e}"),
            None => String::new(),
        };
        let (name, format) = (change.op.escape_debug(), change.format.to_string());
        report::line(format!(
            "  {format:24} error {:.1e}{weights}  {name}",
            layer.error
        ))?;
    }
    for unchanged in &comparison.report.unchanged {
        let (name, reason) = (unchanged.op.escape_debug(), unchanged.reason);
        let format = unchanged.format.to_string();
        report::line(format!("  {format:24} not used: {reason}  {name}"))?;
    }
    let (before, after) = (
        comparison.report.bytes_before(),
        comparison.report.bytes_after(),
    );
    let products = comparison.report.changes.len();
    report::line(format!(
        "  {products} products, weights of {before} bytes in {after}"
    ))
}

fn print_json(case: &str, comparison: &PrecisionComparison) -> Result<(), Error> {
    let outputs = comparison.outputs.iter().map(|(name, error)| Line::Output {
        case,
        name,
        error: *error,
    });
    let products = comparison.layers.iter().map(|layer| Line::Product {
        case,
        name: &layer.change.op,
        format: layer.change.format.to_string(),
        error: layer.error,
        weight_error: layer.change.weight_error,
        bytes_before: layer.change.bytes_before,
        bytes_after: layer.change.bytes_after,
    });
    let unchanged = comparison
        .report
        .unchanged
        .iter()
        .map(|product| Line::Unchanged {
            case,
            name: &product.op,
            format: product.format.to_string(),
            reason: product.reason.to_string(),
        });
    for line in outputs.chain(products).chain(unchanged) {
        report::line(serde_json::to_string(&line)?)?;
    }
    Ok(())
}
