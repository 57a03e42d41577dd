//! Graphs of an ONNX model: its open ranks, and the import for a choice.

use super::{Choice, Error, Made, Options, Signature, check_names, dim_failure};
use crate::description::ValueDescription;
use crate::notice::Notice;
use kiln_onnx::{
    Dim, Import, ImportOptions, Imported, Model, ValueInfo, ValueType, graph_inputs, import_or_ask,
};
use kiln_symbolic_shape::SymbolicDimension;
use std::collections::BTreeSet;

pub(super) fn open_signature(model: &Model, options: &Options) -> Result<Option<Signature>, Error> {
    let inputs = graph_inputs(model, &import_options(options))?;
    let is_open = |input: &ValueInfo| {
        matches!(input.ty, Some(ValueType::Tensor { shape: None, .. }))
            && !options.import.ranks.contains_key(input.name.as_str())
    };
    let positions = inputs.iter().enumerate();
    let open: Vec<usize> = positions
        .filter(|(_, input)| is_open(input))
        .map(|(index, _)| index)
        .collect();
    if open.is_empty() {
        return Ok(None);
    }
    let inputs = inputs.iter().map(describe).collect();
    let outputs = stated_outputs(model);
    let metadata = model.metadata().clone();
    Ok(Some(Signature::new(inputs, open, outputs, metadata)))
}

/// The outputs as stated by the model. Any rank is possible: the graph is known only at a call.
pub(super) fn stated_outputs(model: &Model) -> Vec<ValueDescription> {
    model.graph().outputs().iter().map(describe).collect()
}

pub(super) fn import(model: &Model, choice: &Choice, options: &Options) -> Result<Made, Error> {
    check_names(options, &dim_names(model))?;
    let mut import_options = import_options(options);
    for (name, &dim) in &options.dims {
        let dimension = dim
            .symbolic(name)
            .map_err(|source| dim_failure(name, source))?;
        import_options = import_options.dim(name, dimension);
    }
    for (input, &rank) in &choice.ranks {
        import_options = import_options.rank(input, rank);
    }
    for (&question, &answer) in &choice.answers {
        import_options = import_options.answer(question, answer);
    }
    let Imported {
        graph, wrong_types, ..
    } = match import_or_ask(model, &import_options)? {
        Import::Graph(imported) => imported,
        Import::Question(question) => return Ok(Made::Question(question)),
    };
    if let Some(first) = wrong_types.first() {
        options.observation.on_notice.notify(&Notice::WrongTypes {
            count: wrong_types.len(),
            first: first.to_string(),
        });
    }
    Ok(Made::Graph(graph))
}

/// The options about inputs, and the strictness of reading.
fn import_options(options: &Options) -> ImportOptions {
    let mut import_options = ImportOptions::new()
        .mode(options.import.mode)
        .limits(options.limits.onnx.clone())
        .dim_limits(options.limits.dims.clone());
    for (input, &rank) in &options.import.ranks {
        import_options = import_options.rank(input, rank);
    }
    for (input, value) in &options.import.fixed {
        import_options = import_options.fix(input, value.clone());
    }
    for (input, &entries) in &options.import.lengths {
        import_options = import_options.length(input, entries);
    }
    for input in &options.import.absent {
        import_options = import_options.absent(input);
    }
    import_options
}

/// The model's names for sizes of its inputs.
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

/// The description in the model's file of an input or output.
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
