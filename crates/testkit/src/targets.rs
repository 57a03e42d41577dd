//! What the fuzz targets do with their bytes; a test replays kept inputs through the same functions.
//!
//! Each takes any bytes and panics only when Kiln broke a promise: a law of the text, a graph that
//! passed the verifiers and made a later stage panic or disagree. Bad input is no finding.

use crate::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use crate::laws::check_graph;
use crate::oracle::{Tolerance, run_both, small_limits};
use arbitrary::Unstructured;
use kiln_interpreter::InterpretOptions;
use kiln_ir::{BlobMap, Graph, text, verify};
use kiln_onnx::{ImportOptions, Limits, Model, NoFiles, import};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference as infer;

/// Every target with its name, which is that of its folders under `fuzz/`.
pub const TARGETS: [(&str, fn(&[u8])); 3] = [
    ("read_graph", read_graph),
    ("import_onnx", import_onnx),
    ("interpret_graph", interpret_graph),
];

/// How many bytes before a text choose the inputs that its graph is run on.
const CHOICE_BYTES: usize = 16;

/// Bytes as the text of a graph: refused with a message that can be shown, or a graph under every law.
pub fn read_graph(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    match infer::read_graph(source, &BlobMap::new()) {
        Err(errors) => drop(errors.render(source)),
        Ok(graph) => keep(check_graph(&graph), &graph),
    }
}

/// Bytes as an ONNX model with no files beside it: what is imported is a valid graph.
pub fn import_onnx(bytes: &[u8]) {
    let Ok(model) = Model::from_bytes_with(bytes, &NoFiles, &Limits::default()) else {
        return;
    };
    if let Ok(graph) = import(&model, &ImportOptions::new()) {
        keep(verify(&graph), &graph);
        keep(infer::check_types(&graph), &graph);
    }
}

/// Bytes as choices and the text of a graph, or as choices for a random one: it computes the same
/// before and after the passes.
pub fn interpret_graph(bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.len().min(CHOICE_BYTES));
    match std::str::from_utf8(tail) {
        Ok(source) if source.starts_with("graph") => {
            if let Ok(graph) = infer::read_graph(source, &BlobMap::new()) {
                run(&mut Unstructured::new(head), &graph);
            }
        }
        _ => {
            let mut choices = Unstructured::new(bytes);
            if let Ok(graph) = random_graph(&mut choices, &GraphOptions::default()) {
                keep(check_graph(&graph), &graph);
                run(&mut choices, &graph);
            }
        }
    }
}

/// Runs a graph on a few random inputs, as it is and optimised.
fn run(choices: &mut Unstructured<'_>, graph: &Graph) {
    let mut options = PassOptions {
        verify: true,
        ..PassOptions::default()
    };
    let optimized = keep(optimize(graph.clone(), &mut options), graph).0;
    let options = InterpretOptions {
        limits: small_limits(),
        ..InterpretOptions::default()
    };
    for _ in 0..2 {
        let Ok(Some(shapes)) = input_shapes(choices, graph) else {
            return;
        };
        let elements: usize = shapes
            .iter()
            .flatten()
            .copied()
            .fold(1, usize::saturating_mul);
        if elements > 1 << 16 {
            return;
        }
        let Ok(inputs) = input_tensors(choices, graph, &shapes, Flavor::Edges) else {
            return;
        };
        keep(
            run_both(graph, &optimized, &inputs, &options, Tolerance::Exact),
            graph,
        );
    }
}

/// The value, or a panic that shows the graph: a finding.
fn keep<T, E: std::fmt::Display>(result: Result<T, E>, graph: &Graph) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}\n{}", text::print(graph)),
    }
}
