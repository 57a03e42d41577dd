//! Graphs from text, and helpers to run them.

use kiln_interpreter::{InterpretError, InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph};
use kiln_shape_inference::read_graph;
use kiln_tensor::{Element, Tensor};

/// A graph from its text; types may be omitted.
pub(crate) fn graph(text: &str) -> Graph {
    read_graph(text, &BlobMap::new()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Runs a graph with default options.
pub(crate) fn run(text: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, InterpretError> {
    interpret(&graph(text), inputs, &InterpretOptions::default())
}

/// The first output's elements.
pub(crate) fn output<T: Element>(text: &str, inputs: &[Tensor]) -> Vec<T> {
    let outputs = run(text, inputs).unwrap_or_else(|error| panic!("{error}"));
    outputs[0].to_vec().unwrap()
}

/// The code and the message of the error of a run.
pub(crate) fn error(text: &str, inputs: &[Tensor]) -> String {
    let error = run(text, inputs).expect_err("expected an error");
    format!("{}: {error}", error.code())
}

/// A tensor of these elements.
pub(crate) fn tensor<T: Element>(shape: &[usize], elements: &[T]) -> Tensor {
    Tensor::from_slice(shape, elements).unwrap()
}

/// A tensor of `f32` zeros.
pub(crate) fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(kiln_tensor::DType::F32, shape).unwrap()
}
