//! Graphs of an ONNX model: which ranks are open, and the import for given ones.

use super::{Error, Graph, Options, Signature, check_names, dim_failure};
use crate::description::ValueDescription;
use kiln_onnx::{Dim, ImportOptions, Model, ValueInfo, ValueType, import as import_model};
use kiln_symbolic_shape::SymbolicDimension;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn open_ranks(model: &Model, ranks: &BTreeMap<String, usize>) -> Vec<usize> {
    let is_open = |input: &ValueInfo| {
        matches!(input.ty, Some(ValueType::Tensor { shape: None, .. }))
            && !ranks.contains_key(input.name.as_str())
    };
    let inputs = model.graph().required_inputs().enumerate();
    inputs
        .filter(|(_, input)| is_open(input))
        .map(|(index, _)| index)
        .collect()
}

pub(super) fn signature(model: &Model, open: Vec<usize>) -> Signature {
    let inputs = model.graph().required_inputs().map(describe).collect();
    let outputs = model.graph().outputs().iter().map(describe).collect();
    Signature::new(inputs, open, outputs, model.metadata().clone())
}

pub(super) fn import(
    model: &Model,
    ranks: &BTreeMap<String, usize>,
    options: &Options,
) -> Result<Graph, Error> {
    check_names(options, &dim_names(model))?;
    let mut import_options = ImportOptions::new()
        .mode(options.mode)
        .limits(options.limits.onnx.clone());
    for (name, &dim) in &options.dims {
        let dimension = dim
            .symbolic(name)
            .map_err(|source| dim_failure(name, source))?;
        import_options = import_options.dim(name, dimension);
    }
    for (input, &rank) in options.ranks.iter().chain(ranks) {
        import_options = import_options.rank(input, rank);
    }
    Ok(import_model(model, &import_options)?)
}

/// The names that the model gives to sizes of its inputs.
fn dim_names(model: &Model) -> BTreeSet<String> {
    let inputs = model.graph().required_inputs();
    let shapes = inputs.filter_map(|value| match &value.ty {
        Some(ValueType::Tensor { shape, .. }) => shape.as_deref(),
        _ => None,
    });
    let names = shapes.flatten().filter_map(|dim| match dim {
        Dim::Named(name) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// What the model's file says of an input or output.
fn describe(value: &ValueInfo) -> ValueDescription {
    let Some(ValueType::Tensor { element, shape }) = &value.ty else {
        return ValueDescription::new(value.name.as_str(), None, None);
    };
    let shape = shape.as_ref().map(|dims| {
        let dimension = |dim: &Dim| match dim {
            Dim::Known(size) => SymbolicDimension::known(i64::try_from(*size).unwrap_or(i64::MAX)),
            Dim::Named(name) => SymbolicDimension::named(&**name),
            Dim::Anonymous => SymbolicDimension::named("?"),
        };
        dims.iter().map(dimension).collect()
    });
    ValueDescription::new(value.name.as_str(), element.dtype(), shape)
}
