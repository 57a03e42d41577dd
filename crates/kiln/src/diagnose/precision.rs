//! The error of reduced precision: how far a model's outputs, and the results of its products, are from those of `f32`.
//!
//! The results of the products that a precision changes are added to the graph's outputs, and the graph is run with and
//! without the precision.

use super::comparison::Distance;
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;
use crate::options::Options;
use crate::source::Source;
use kiln_ir::{Graph, ValueId};
use kiln_precision::{Change, Precision, PrecisionReport, reduce_precision};
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// The errors of a model with reduced precision relative to the original model. They are defined as
/// [`OutputComparison::error`]: the largest error of an element, relative to the largest expected element.
///
/// [`OutputComparison::error`]: super::OutputComparison::error
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrecisionComparison {
    /// Each output, with its error.
    pub outputs: Vec<(String, f64)>,
    /// Each product that was changed outside control flow.
    pub layers: Vec<LayerError>,
    /// The products that were changed, and those that were not.
    pub report: PrecisionReport,
}

/// The error of a product's result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LayerError {
    /// The change.
    pub change: Change,
    /// The error of its result, including the effect of the changes before it.
    pub error: f64,
}

/// Runs a model on some inputs, with a precision and without, and compares outputs and products. The model is one that was
/// loaded without a precision.
///
/// # Errors
/// As [`Call::run`](crate::Call::run), and when the precision does not apply to the model.
///
/// ```
/// use kiln::{Format, Model, Source, Tensor, diagnose};
///
/// let model = Model::load(Source::text("graph @f(%x: f32[N, 2]) -> f32[N, 1] {
///   %w: f32[2, 1] = constant [0.1, 0.7]
///   %y = matmul %x, %w
///   return \"y\" = %y
/// }"))?;
/// let x = Tensor::from_slice(&[1, 2], &[1.0f32, -2.0])?;
/// let comparison = diagnose::compare_precision(&model, &Format::BF16.into(), [("x", &x)])?;
/// let (name, error) = &comparison.outputs[0];
/// assert!(name == "y" && *error > 0.0 && *error < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare_precision<'a>(
    model: &Model,
    precision: &Precision,
    inputs: impl Into<Inputs<'a>>,
) -> Result<PrecisionComparison, Error> {
    let inputs = inputs.into();
    guarded("a comparison", || compared(model, precision, &inputs))
}

fn compared(
    model: &Model,
    precision: &Precision,
    inputs: &Inputs<'_>,
) -> Result<PrecisionComparison, Error> {
    let inputs = model.arranged(inputs)?;
    let instance = model.instance_for(&inputs, None)?;
    let graph = instance.imported(model.options())?;
    let (_, report) = reduce_precision(graph, precision)?;
    let shown = in_body(graph, &report);
    let watched = watched(graph, &shown);
    let options = Options {
        // The graph already includes these.
        dims: BTreeMap::new(),
        gradients: None,
        recorder: None,
        ..model.options().clone()
    };
    let narrow = options.clone().precision(precision.clone());
    let run = |options: Options| -> Result<Vec<Tensor>, Error> {
        let model = options.load(Source::graph(watched.clone()))?;
        let names = model.inputs().iter().map(|input| input.name());
        let named: Vec<(&str, &Tensor)> = names.zip(inputs.iter()).collect();
        Ok(model.run(named.as_slice())?.into_tensors())
    };
    let (found, expected) = (run(narrow)?, run(options)?);
    let errors: Result<Vec<f64>, Error> = found
        .iter()
        .zip(&expected)
        .map(|(found, expected)| Ok(Distance::of(found, expected)?.error))
        .collect();
    let errors = errors?;
    let (outputs, products) = errors.split_at(graph.outputs().len().min(errors.len()));
    let names = model
        .outputs()
        .iter()
        .map(|output| output.name().to_owned());
    let layers = shown.into_iter().zip(products);
    Ok(PrecisionComparison {
        outputs: names.zip(outputs.iter().copied()).collect(),
        layers: layers
            .map(|(change, &error)| LayerError {
                change: change.clone(),
                error,
            })
            .collect(),
        report: report.clone(),
    })
}

/// The changes outside control flow: regions keep their values.
fn in_body<'r>(graph: &Graph, report: &'r PrecisionReport) -> Vec<&'r Change> {
    let ops = graph.region(graph.body()).ops.iter();
    let values: BTreeSet<ValueId> = ops.flat_map(|&op| graph.op(op).results.clone()).collect();
    let changes = report.changes.iter();
    changes
        .filter(|change| values.contains(&change.value))
        .collect()
}

/// The graph with the results of these products as further outputs.
fn watched(graph: &Graph, changes: &[&Change]) -> Graph {
    let mut watched = graph.clone();
    let outputs = graph.output_names().iter().zip(graph.outputs());
    let outputs = outputs.map(|(name, &value)| (name.to_string(), value));
    let layers = changes.iter().enumerate();
    let layers = layers.map(|(position, change)| (format!("layer {position}"), change.value));
    watched.set_outputs(outputs.chain(layers).collect::<Vec<_>>());
    watched
}
