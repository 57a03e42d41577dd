//! Test helpers: graphs from text, one pass at a time, and the interpreter as reference.

use crate::{Changed, PassContext, PassError, PassOptions, Report, optimize};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph, text, verify};
use kiln_shape_inference::check_types;
use kiln_tensor::{DType, Tensor};

/// A pass.
pub(crate) type Pass = fn(Graph, &mut PassContext) -> Result<Changed<Graph>, PassError>;

/// Reads a graph and checks it.
pub(crate) fn graph(source: &str) -> Graph {
    let graph = text::read(source, &BlobMap::new()).unwrap_or_else(|error| panic!("{error}"));
    check(&graph);
    graph
}

/// The graph after some passes, as text; each pass is followed by the verifier and a check of types.
pub(crate) fn after(passes: &[Pass], source: &str) -> String {
    let mut graph = graph(source);
    let mut ctx = PassContext::new();
    for pass in passes {
        let changed = pass(graph, &mut ctx).unwrap();
        graph = changed.graph;
        check(&graph);
    }
    text::print(&graph)
}

/// Whether a pass leaves a graph unchanged.
pub(crate) fn is_unchanged(pass: Pass, source: &str) -> bool {
    let graph = graph(source);
    let before = text::print(&graph);
    let changed = pass(graph, &mut PassContext::new()).unwrap();
    assert_eq!(changed.is_changed(), text::print(&changed.graph) != before);
    !changed.is_changed()
}

/// The graph after the whole pipeline, and its report.
pub(crate) fn optimized(graph: Graph) -> (Graph, Report) {
    optimize(
        graph,
        &mut PassOptions {
            verify: true,
            ..PassOptions::default()
        },
    )
    .unwrap()
}

/// Runs a graph on both sides of the pipeline and compares the results bit for bit.
pub(crate) fn same_results(source: &str, inputs: &[Tensor]) {
    let before = graph(source);
    let (after, _) = optimized(before.clone());
    assert_same(&before, &after, inputs);
}

/// Runs two graphs and compares their results, including faults, bit for bit.
pub(crate) fn assert_same(before: &Graph, after: &Graph, inputs: &[Tensor]) {
    let options = InterpretOptions::default();
    let (expected, found) = (
        interpret(before, inputs, &options),
        interpret(after, inputs, &options),
    );
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            assert_eq!(expected.len(), found.len());
            for (expected, found) in expected.iter().zip(&found) {
                assert!(
                    expected.bit_equal(found),
                    "expected {expected:?} {:?}, found {found:?} {:?}\n{}{}",
                    elements(expected),
                    elements(found),
                    text::print(before),
                    text::print(after)
                );
            }
        }
        (Err(expected), Err(found)) => assert_eq!(expected.code(), found.code()),
        (expected, found) => panic!(
            "expected {expected:?}, found {found:?}\n{}{}",
            text::print(before),
            text::print(after)
        ),
    }
}

/// An f32 tensor.
pub(crate) fn floats(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_slice(shape, elements).unwrap()
}

/// An f32 tensor of small distinct numbers of both signs, including -0.0.
pub(crate) fn ramp(shape: &[usize]) -> Tensor {
    let len = shape.iter().product::<usize>();
    let elements: Vec<f32> = (0..len)
        .map(|i| {
            if i % 7 == 3 {
                -0.0
            } else {
                (i as f32 - len as f32 / 2.0) * 0.25
            }
        })
        .collect();
    floats(shape, &elements)
}

fn elements(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F32 => tensor
            .to_vec::<f32>()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect(),
        DType::I64 => tensor
            .to_vec::<i64>()
            .unwrap()
            .into_iter()
            .map(|i| i as f64)
            .collect(),
        _ => vec![],
    }
}

fn check(graph: &Graph) {
    verify(graph).unwrap_or_else(|errors| panic!("{errors}\n{}", text::print(graph)));
    check_types(graph).unwrap_or_else(|errors| panic!("{errors}\n{}", text::print(graph)));
}

#[test]
fn every_rule_names_functions_that_exist() {
    // A misspelt name would only disable its rule.
    let names = "add sub mul div pow min max neg abs sign not bit_not bit_and bit_or bit_xor and or xor shl shr eq ne lt
        le gt ge select square reciprocal sqrt rsqrt relu floor ceil trunc round_even exp exp2 sigmoid cosh";
    for name in names.split_whitespace() {
        let function = kiln_scalar::Function::by_name(name);
        assert_eq!(function.map(|function| function.name()), Some(name));
    }
}
