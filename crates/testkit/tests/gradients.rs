//! Gradients, as interpreted, of every scalar function and of random graphs; gradients of other ops are cases in
//! `testdata/gradients`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use arbitrary::Unstructured;
use kiln_autodiff::widened;
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph};
use kiln_scalar::Function;
use kiln_shape_inference::read_graph;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::gradients::{GENERIC, check, check_directions};
use kiln_testkit::random::seeded_bytes;

/// Intervals in which a function and its derivatives are finite, and finite differences are accurate.
fn domain(name: &str) -> (f64, f64) {
    match name {
        "acosh" => (1.5, 3.0),
        "asin" | "acos" | "atanh" => (-0.9, 0.9),
        "log" | "log2" | "sqrt" | "rsqrt" | "pow" | "reciprocal" | "div" => (0.3, 2.0),
        "log1p" => (-0.5, 2.0),
        "tan" => (-1.0, 1.0),
        // Away from jumps.
        "rem" | "floor_mod" => (0.55, 0.95),
        _ => GENERIC,
    }
}

#[test]
fn scalar_functions_have_the_gradients_of_their_differences() {
    let mut n_checked = 0;
    for function in Function::all() {
        let (name, arity) = (function.name(), function.arity());
        let is_smooth = |operand| {
            function
                .derivative(&[], operand)
                .is_ok_and(|slope| slope.is_some())
        };
        let floats = vec![DType::F64; arity];
        let is_float = function.result_type(&floats) == Ok(DType::F64);
        if !is_float || !(0..arity).any(is_smooth) {
            continue;
        }
        let parameters: Vec<String> = (0..arity)
            .map(|index| format!("%x{index}: f64[N]"))
            .collect();
        let operands: Vec<String> = (0..arity).map(|index| format!("%x{index}")).collect();
        let text = format!(
            "graph @main({}) -> f64[N] {{ %y = {name} {} return %y }}",
            parameters.join(", "),
            operands.join(", ")
        );
        let graph = read_graph(&text, &BlobMap::new()).unwrap();
        let inputs = [0, 1, 7].map(|size| Ok(vec![Tensor::full(&[size], 0.0_f64).unwrap(); arity]));
        check(&graph, inputs.into_iter(), domain(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        n_checked += 1;
    }
    assert!(n_checked >= 50, "only {n_checked} functions were checked");
}

/// The number of random graphs that are differentiated.
const N_GRAPHS: u64 = 500;

#[test]
fn random_graphs_have_the_gradients_of_their_differences() {
    let options = GraphOptions {
        max_ops: 10,
        smooth: true,
    };
    let (mut n_checked, mut n_twice, mut seed) = (0, 0, 0);
    while n_checked < N_GRAPHS {
        seed += 1;
        assert!(
            seed < 20 * N_GRAPHS,
            "only {n_checked} of {seed} graphs have gradients"
        );
        let bytes = seeded_bytes(seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let graph = random_graph(&mut choices, &options).unwrap();
        let graph = widened(&graph).unwrap();
        let Some(inputs) = inputs_of(&graph, &mut choices) else {
            continue;
        };
        let twice = seed % 8 == 0;
        match check_directions(&graph, &inputs, GENERIC, (twice, seed)) {
            Ok(is_steady) => {
                n_checked += u64::from(is_steady);
                n_twice += u64::from(is_steady && twice);
            }
            // Nothing in it varies smoothly.
            Err(error) if error.contains("has no derivative") => {}
            Err(error) => panic!("seed {seed}: {error}\n{}", kiln_ir::text::print(&graph)),
        }
    }
    assert!(n_twice >= 30, "only {n_twice} second derivatives");
}

/// Inputs on which the graph has finite results; `None` if none were found.
fn inputs_of(graph: &Graph, choices: &mut Unstructured<'_>) -> Option<Vec<Tensor>> {
    let shapes = input_shapes(choices, graph).ok()??;
    let inputs = input_tensors(choices, graph, &shapes, Flavor::Smooth).ok()?;
    interpret(graph, &inputs, &InterpretOptions::default()).ok()?;
    Some(inputs)
}
