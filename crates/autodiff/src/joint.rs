//! The joint graph: a graph's outputs and the gradients of some of them, over one table of sizes.

use crate::activity::{Activity, expect_smooth_path, is_float};
use crate::adjoint::{Adjoint, Adjoints};
use crate::context::Context;
use crate::copy::Copy;
use crate::emit::zeros_like;
use crate::masks::Masks;
use crate::rules::{GradientRules, expect_own_gradients};
use crate::sweep::sweep;
use crate::{GradientError, Result};
use kiln_ir::{Graph, ValueId, verify};
use kiln_shape_inference::{GraphBuilder, ShapeInferenceEngine};
use kiln_symbolic_shape::{DimId, SymbolId};
use std::collections::HashSet;

/// Where the cotangents of the differentiated outputs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cotangents {
    /// They are 1: the outputs are scalars, such as losses.
    Ones,
    /// Each is a further input of the joint graph, with its output's type: a vector-Jacobian product.
    Inputs,
}

/// What to differentiate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradientRequest {
    /// The differentiated outputs, by position; if there are several, their gradients are summed.
    pub outputs: Vec<usize>,
    /// The inputs whose gradients are computed, by position.
    pub inputs: Vec<usize>,
    /// Where the outputs' cotangents come from.
    pub cotangents: Cotangents,
}

impl GradientRequest {
    /// The gradients of a scalar output.
    pub fn of_scalar(output: usize, inputs: &[usize]) -> Self {
        Self {
            outputs: vec![output],
            inputs: inputs.to_vec(),
            cotangents: Cotangents::Ones,
        }
    }

    /// Vector-Jacobian products with cotangents that are inputs of the joint graph.
    pub fn with_cotangents(outputs: &[usize], inputs: &[usize]) -> Self {
        Self {
            outputs: outputs.to_vec(),
            inputs: inputs.to_vec(),
            cotangents: Cotangents::Inputs,
        }
    }
}

/// A graph together with gradients of its outputs.
#[derive(Clone, Debug)]
pub struct JointGraph {
    /// Inputs: those of the source graph, then the cotangents. Outputs: those of the source graph, then the gradients.
    pub graph: Graph,
    /// The number of outputs of the source graph.
    pub n_outputs: usize,
    /// The inputs that are cotangents, by position, in the order of the request's outputs.
    pub cotangents: Vec<usize>,
    /// The outputs that are gradients, by position, in the order of the request's inputs. Each has its input's type; it
    /// is zero if no output depends on the input.
    pub gradients: Vec<usize>,
}

/// A graph and the gradients of some of its outputs with respect to some of its inputs, in reverse mode.
///
/// # Errors
/// When the graph is not well formed; E06xx when an output or input is not a float, when an input reaches the outputs only
/// through ops without a derivative, and when an op on the way has no rule.
pub fn differentiate(graph: &Graph, request: &GradientRequest) -> Result<JointGraph> {
    let engine = ShapeInferenceEngine::new();
    differentiate_with(graph, request, &GradientRules::new(), &engine)
}

/// As [`differentiate`], with gradients and types of custom ops.
///
/// # Errors
/// As [`differentiate`].
pub fn differentiate_with(
    graph: &Graph,
    request: &GradientRequest,
    rules: &GradientRules,
    engine: &ShapeInferenceEngine,
) -> Result<JointGraph> {
    verify(graph)?;
    expect_own_gradients(graph)?;
    let outputs = chosen(graph, "output", graph.outputs(), &request.outputs)?;
    let inputs = chosen(graph, "input", graph.inputs(), &request.inputs)?;
    if request.cotangents == Cotangents::Ones {
        expect_scalars(graph, request)?;
    }
    let activity = Activity::of(graph, &outputs, &inputs);
    expect_smooth_path(graph, &outputs, &inputs, &activity)?;
    let context = Context {
        source: graph,
        rules,
        activity,
        masks: Masks::of(graph),
    };

    let mut b = GraphBuilder::over(graph, engine.clone());
    let mut copy = Copy::of_body();
    for &input in graph.inputs() {
        let input_copy = b.copy_input(graph, input);
        copy.map(input, input_copy);
    }
    let seeds = match request.cotangents {
        Cotangents::Ones => Vec::new(),
        Cotangents::Inputs => add_cotangents(&mut b, graph, request)?,
    };
    copy.fill(&mut b, &context, graph.body())?;

    let mut adjoints = Adjoints::default();
    for (index, &output) in outputs.iter().enumerate() {
        if !context.activity.is_active(output) {
            continue;
        }
        let value = match seeds.get(index) {
            Some(&seed) => seed,
            None => b.scalar(b.dtype(copy.value(output))?, 1.0)?,
        };
        let seed = Adjoint {
            value,
            is_masked: false,
        };
        adjoints.add(&mut b, output, copy.value(output), seed)?;
    }
    sweep(&mut b, &context, graph.body(), &copy, &mut adjoints)?;

    let mut results: Vec<(String, ValueId)> = graph
        .output_names()
        .iter()
        .zip(copy.values(graph.outputs()))
        .map(|(name, value)| (name.to_string(), value))
        .collect();
    let mut names: HashSet<String> = results.iter().map(|(name, _)| name.clone()).collect();
    let mut gradients = Vec::with_capacity(inputs.len());
    for &input in &inputs {
        let value = match adjoints.get(input) {
            Some(adjoint) => adjoint.value,
            None => zeros_like(&mut b, copy.value(input))?,
        };
        gradients.push(results.len());
        results.push((unused(&mut names, "d", &graph.input_name(input)), value));
    }
    let n_outputs = graph.outputs().len();
    let cotangents = (0..seeds.len()).map(|index| graph.inputs().len() + index);
    Ok(JointGraph {
        cotangents: cotangents.collect(),
        graph: b.finish(&results)?,
        n_outputs,
        gradients,
    })
}

/// Values by position, which must be floats.
fn chosen(
    graph: &Graph,
    kind: &'static str,
    all: &[ValueId],
    positions: &[usize],
) -> Result<Vec<ValueId>> {
    let mut values = Vec::with_capacity(positions.len());
    for &position in positions {
        let Some(&value) = all.get(position) else {
            let count = all.len();
            return Err(GradientError::NoSuch {
                kind,
                position,
                count,
            });
        };
        if !is_float(graph, value) {
            return Err(GradientError::NotFloat {
                kind,
                name: name_of(graph, kind, position),
                found: graph.ty(value).display(graph.dims()).to_string(),
            });
        }
        values.push(value);
    }
    Ok(values)
}

/// The name of an input or output, safe to print.
fn name_of(graph: &Graph, kind: &str, position: usize) -> String {
    let name = match kind {
        "input" => graph
            .inputs()
            .get(position)
            .map(|&value| graph.input_name(value)),
        _ => graph
            .output_names()
            .get(position)
            .map(|name| name.to_string()),
    };
    name.unwrap_or_default().escape_debug().to_string()
}

/// Rejects outputs that have more than one element.
fn expect_scalars(graph: &Graph, request: &GradientRequest) -> Result<()> {
    for &position in &request.outputs {
        let Some(&output) = graph.outputs().get(position) else {
            continue;
        };
        let dims = &graph.ty(output).innermost().dims;
        let is_one = |&dim: &_| graph.dims().as_constant(dim) == Some(1);
        if !dims.iter().all(is_one) {
            return Err(GradientError::NotScalar {
                name: name_of(graph, "output", position),
                found: graph.ty(output).display(graph.dims()).to_string(),
            });
        }
    }
    Ok(())
}

/// An input for the cotangent of each differentiated output.
fn add_cotangents(
    b: &mut GraphBuilder,
    graph: &Graph,
    request: &GradientRequest,
) -> Result<Vec<ValueId>> {
    let inputs = graph.inputs().iter();
    let mut names: HashSet<String> = inputs.map(|&input| graph.input_name(input)).collect();
    let sizes = graph
        .inputs()
        .iter()
        .flat_map(|&input| &graph.ty(input).innermost().dims);
    let known: HashSet<SymbolId> = sizes
        .filter_map(|&dim| graph.dims().as_symbol(dim))
        .collect();
    let mut cotangents = Vec::with_capacity(request.outputs.len());
    for &position in &request.outputs {
        let Some(name) = graph.output_names().get(position) else {
            continue;
        };
        let Some(&output) = graph.outputs().get(position) else {
            continue;
        };
        let name = unused(&mut names, "d", name);
        // A size that is known only after the graph ran is a separate symbol here, and is checked where the cotangent
        // is used.
        let ty = graph.ty(output).try_map_dims(&mut |dim| {
            let mut symbols = graph.dims().symbols_in(dim).into_iter();
            if symbols.all(|symbol| known.contains(&symbol)) {
                return Ok::<DimId, GradientError>(dim);
            }
            let symbol = b.dims_mut().fresh("c");
            Ok(b.dims_mut().dim(symbol))
        })?;
        cotangents.push(b.input_of_type(&name, ty));
    }
    Ok(cotangents)
}

/// `prefix_name`, with the prefix repeated while that name is taken.
fn unused(taken: &mut HashSet<String>, prefix: &str, name: &str) -> String {
    let mut candidate = format!("{prefix}_{name}");
    while !taken.insert(candidate.clone()) {
        candidate = format!("{prefix}_{candidate}");
    }
    candidate
}
