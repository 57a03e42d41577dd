//! Graphs and ONNX models: readers, passes, fusion, programs, the interpreter.

use super::{CHOICE_BYTES, assert_plain, fail_with};
use crate::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use crate::laws::{check_graph, check_output_types};
use crate::oracle::{Agreement, Tolerance, run_both};
use arbitrary::Unstructured;
use kiln_fusion::FusionOptions;
use kiln_interpreter::{InterpretLimits, InterpretOptions};
use kiln_ir::{BlobMap, Graph, Op, text, verify};
use kiln_onnx::{ImportOptions, Limits, Model, NoFiles, import};
use kiln_passes::{PassOptions, optimize};
use kiln_program::{BuildOptions, RowMajor};
use kiln_shape_inference as infer;

/// The maximum number of ops of an imported graph that is processed further: a small file may describe minutes of work.
const OPS_LIMIT: usize = 400;

/// Bytes as the text of a graph: rejected with a printable message, or a graph that satisfies every law.
pub fn read_graph(bytes: &[u8]) {
    if let Some(graph) = graph_of_text(bytes) {
        keep(check_graph(&graph), &graph);
    }
}

/// Bytes as an ONNX model with no files next to it: rejected with a message that a terminal can show, or imported as a
/// valid graph.
pub fn import_onnx(bytes: &[u8]) {
    let imported = Model::from_bytes_with(bytes, &NoFiles, &Limits::default())
        .and_then(|model| import(&model, &ImportOptions::new()));
    match imported {
        Ok(graph) => {
            keep(verify(&graph), &graph);
            keep(infer::check_types(&graph), &graph);
        }
        Err(error) => {
            assert_plain(&error.to_string());
        }
    }
}

/// Bytes as choices and an ONNX model: an imported graph goes through inference again, the passes, fusion and the building
/// of a program, each of which keeps its guarantees, and computes the same before and after the passes.
pub fn run_onnx(bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.len().min(CHOICE_BYTES));
    let imported = Model::from_bytes_with(tail, &NoFiles, &Limits::default())
        .and_then(|model| import(&model, &ImportOptions::new()));
    let Ok(graph) = imported else {
        return;
    };
    if graph.ops().count() > OPS_LIMIT {
        return;
    }
    keep(check_graph(&graph), &graph);
    plan(&graph);
    run(&mut Unstructured::new(head), &graph, 1 << 20);
}

/// Bytes as the text of a graph, or as choices for a random one: every graph that passes the verifier becomes a program.
pub fn plan_graph(bytes: &[u8]) {
    let graph = if bytes.starts_with(b"graph") {
        graph_of_text(bytes)
    } else {
        random_graph(&mut Unstructured::new(bytes), &GraphOptions::default()).ok()
    };
    if let Some(graph) = graph.filter(|graph| graph.ops().count() <= OPS_LIMIT) {
        plan(&graph);
    }
}

/// Optimises, fuses and builds a program, and reports the stage that broke its guarantee.
fn plan(graph: &Graph) {
    let mut options = PassOptions {
        verify: true,
        ..PassOptions::default()
    };
    let optimized = keep(optimize(graph.clone(), &mut options), graph).0;
    keep(check_graph(&optimized), &optimized);
    // Values with neither kernels nor steps, such as those that are not tensors, are rejected with a message.
    let built = kiln_fusion::plan(&optimized, &FusionOptions::new()).map(|planned| {
        kiln_program::build(optimized, &planned, &RowMajor, &BuildOptions::default())
            .map_err(|error| error.to_string())
    });
    if let Ok(Ok(program)) = built {
        assert!(!program.to_string().is_empty());
    }
}

/// Bytes as choices and the text of a graph, or as choices for a random one: it computes the same
/// before and after the passes.
pub fn interpret_graph(bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.len().min(CHOICE_BYTES));
    if tail.starts_with(b"graph") {
        if let Some(graph) = graph_of_text(tail) {
            // Only the limit on live bytes bounds the work of one op of any size.
            run(&mut Unstructured::new(head), &graph, 32 << 10);
        }
        return;
    }
    let mut choices = Unstructured::new(bytes);
    if let Ok(graph) = random_graph(&mut choices, &GraphOptions::default()) {
        keep(check_graph(&graph), &graph);
        run(&mut choices, &graph, 4 << 20);
    }
}

/// Runs a graph on a few random inputs, unchanged and optimised.
fn run(choices: &mut Unstructured<'_>, graph: &Graph, live_bytes: u64) {
    let mut options = PassOptions {
        freeze: false,
        reorder_sums: false,
        verify: true,
        ..PassOptions::default()
    };
    let optimized = keep(optimize(graph.clone(), &mut options), graph).0;
    let limits = InterpretLimits {
        live_bytes,
        iterations: 200,
        ..InterpretLimits::default()
    };
    let options = InterpretOptions {
        limits,
        ..InterpretOptions::default()
    };
    for flavor in [Flavor::Small, Flavor::Edges] {
        let Ok(Some(shapes)) = input_shapes(choices, graph) else {
            return;
        };
        let elements = |shape: &Vec<usize>| shape.iter().copied().fold(1, usize::saturating_mul);
        if shapes.iter().map(elements).fold(0, usize::saturating_add) > 1 << 16 {
            return;
        }
        let Ok(inputs) = input_tensors(choices, graph, &shapes, flavor) else {
            return;
        };
        let tolerance = if rounds_otherwise(graph) {
            Tolerance::OfLargest(f64::INFINITY)
        } else {
            Tolerance::Exact
        };
        let ran = run_both(graph, &optimized, &inputs, &options, tolerance);
        if let Agreement::Outputs(outputs) = keep(ran, graph) {
            keep(check_output_types(graph, &inputs, &outputs), graph);
            keep(check_output_types(&optimized, &inputs, &outputs), graph);
        }
    }
}

/// The graph of a text, or a check that the diagnostics of a rejected text can be shown.
pub(super) fn graph_of_text(bytes: &[u8]) -> Option<Graph> {
    let source = std::str::from_utf8(bytes).ok()?;
    match infer::read_graph(source, &BlobMap::new()) {
        Ok(graph) => Some(graph),
        Err(errors) => {
            assert!(!errors.render(source).is_empty());
            None
        }
    }
}

/// Whether the passes may round an op of this graph differently: a power of floats.
fn rounds_otherwise(graph: &Graph) -> bool {
    graph.ops().any(|(_, data)| match &data.op {
        Op::Map { function, .. } => {
            let is_float = |&value| graph.ty(value).innermost().dtype.is_float();
            function.name() == "pow" && data.operands.iter().any(is_float)
        }
        _ => false,
    })
}

/// The value, or a panic that shows the graph: a finding.
fn keep<T, E: std::fmt::Display>(result: Result<T, E>, graph: &Graph) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(&error.to_string(), graph),
    }
}

fn fail(error: &str, graph: &Graph) -> ! {
    fail_with(&format!("{error}\n{}", text::print(graph)))
}
