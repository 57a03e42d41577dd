//! Jacobian-vector products, by transposing twice.
//!
//! A vector-Jacobian product is linear in its cotangents, so its transpose in them is the Jacobian-vector product; the
//! rules of reverse mode suffice. The values that the first transposition computes from cotangents alone are dead
//! afterwards.

use crate::activity::Activity;
use crate::context::Context;
use crate::copy::Copy;
use crate::emit::zeros;
use crate::joint::{GradientRequest, differentiate_with};
use crate::masks::Masks;
use crate::rules::GradientRules;
use crate::{GradientError, Result};
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, ShapeInferenceEngine};
use kiln_symbolic_shape::SymbolId;
use std::collections::HashSet;

/// A graph together with tangents of its outputs.
#[derive(Clone, Debug)]
pub struct TangentGraph {
    /// Inputs: those of the source graph, then the tangents. Outputs: those of the source graph, then the outputs' tangents.
    pub graph: Graph,
    /// The inputs that are tangents, by position, in the order requested.
    pub tangent_inputs: Vec<usize>,
    /// The outputs that are tangents, by position, in the order requested.
    pub tangent_outputs: Vec<usize>,
}

/// A graph and the tangents of `outputs` in the direction of tangents of `inputs`, both by position: forward mode.
///
/// # Errors
/// As [`differentiate`](crate::differentiate).
pub fn tangents(graph: &Graph, outputs: &[usize], inputs: &[usize]) -> Result<TangentGraph> {
    let engine = ShapeInferenceEngine::new();
    tangents_with(graph, outputs, inputs, &GradientRules::new(), &engine)
}

/// As [`tangents`], with gradients and types of custom ops.
///
/// # Errors
/// As [`tangents`].
pub fn tangents_with(
    graph: &Graph,
    outputs: &[usize],
    inputs: &[usize],
    rules: &GradientRules,
    engine: &ShapeInferenceEngine,
) -> Result<TangentGraph> {
    let request = GradientRequest::with_cotangents(outputs, inputs);
    let first = differentiate_with(graph, &request, rules, engine)?;
    let request = GradientRequest::with_cotangents(&first.gradients, &first.cotangents);
    let second = differentiate_with(&first.graph, &request, rules, engine)?;
    let outputs = (0..first.n_outputs).chain(second.gradients.iter().copied());
    let graph = without_inputs(&second.graph, &first.cotangents, outputs, rules, engine)?;
    let n_inputs = graph.inputs().len();
    Ok(TangentGraph {
        tangent_inputs: (n_inputs - inputs.len()..n_inputs).collect(),
        tangent_outputs: (first.n_outputs..graph.outputs().len()).collect(),
        graph,
    })
}

/// The part of a graph that computes some outputs, with zeros in place of some inputs.
fn without_inputs(
    graph: &Graph,
    dropped: &[usize],
    outputs: impl Iterator<Item = usize>,
    rules: &GradientRules,
    engine: &ShapeInferenceEngine,
) -> Result<Graph> {
    let context = Context {
        source: graph,
        rules,
        activity: Activity::of(graph, &[], &[]),
        masks: Masks::of(graph),
    };
    let mut b = GraphBuilder::over(graph, engine.clone());
    let mut copy = Copy::of_body();
    let kept = |&(position, _): &(usize, &ValueId)| !dropped.contains(&position);
    for (_, &input) in graph.inputs().iter().enumerate().filter(kept) {
        let input_copy = b.copy_input(graph, input);
        copy.map(input, input_copy);
    }
    let sizes = b
        .graph()
        .inputs()
        .iter()
        .flat_map(|&input| &b.ty(input).innermost().dims);
    let known: HashSet<SymbolId> = sizes.filter_map(|&dim| b.dims().as_symbol(dim)).collect();
    for &position in dropped {
        if let Some(&input) = graph.inputs().get(position)
            && let Some(ty) = graph.tensor_ty(input)
        {
            let sizes = ty.dims.iter().flat_map(|&dim| graph.dims().symbols_in(dim));
            if let Some(size) = sizes.into_iter().find(|symbol| !known.contains(symbol)) {
                let size = graph.dims().symbol_name(size);
                return Err(GradientError::Unsupported {
                    op: "a tangent".to_owned(),
                    what: format!(
                        "an output whose size is known only after the graph ran ({size})"
                    ),
                });
            }
            let zero = zeros(&mut b, ty.dtype, &ty.dims)?;
            copy.map(input, zero);
        }
    }
    let (names, values): (Vec<&str>, Vec<ValueId>) = outputs
        .filter_map(|position| {
            let name = graph.output_names().get(position)?;
            Some((&**name, *graph.outputs().get(position)?))
        })
        .unzip();
    copy.fill_live(&mut b, &context, &values)?;
    let results: Vec<(&str, ValueId)> = names.into_iter().zip(copy.values(&values)).collect();
    Ok(b.finish(&results)?)
}
