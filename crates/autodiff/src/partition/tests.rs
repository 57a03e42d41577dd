//! The forward and backward graphs together compute the same as the joint graph, whatever is saved between them.

use super::{Partition, PartitionOptions, Rematerialization, partition};
use crate::{GradientRequest, JointGraph, differentiate};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph};
use kiln_shape_inference::read_graph;
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Tensor};

const MLP: &str =
    "graph @mlp(%x: f64[B, I], %w: f64[I, H], %b: f64[H], %v: f64[H, O]) -> f64[B, O] {
  %p = matmul %x, %w
  %a = add %p, %b
  %h = tanh %a
  %k = exp %h
  %y = matmul %k, %v
  return \"y\" = %y
}";

const ATTENTION: &str =
    "graph @attention(%q: f64[N, D], %k: f64[M, D], %v: f64[M, E]) -> f64[N, E] {
  %t = transpose %k {permutation = [1, 0]}
  %s = matmul %q, %t
  %m = reduce %s {function = max, axes = [1], keep_dims}
  %c = sub %s, %m
  %e = exp %c
  %z = reduce %e {function = sum, axes = [1], keep_dims}
  %p = div %e, %z
  %y = matmul %p, %v
  return \"y\" = %y
}";

const LOOP: &str = "graph @loop(%x: f64[N], %n: i64[]) -> f64[N] {
  %on: bool[] = constant [true]
  %y: f64[N] = loop %n, %on, %x {carried = 1}
    region(%i: i64[], %s: f64[N]) {
      %go: bool[] = constant [true]
      %r = sin %s
      yield %go, %r
    }
  %z = square %y
  return \"y\" = %z
}";

fn joint(text: &str, inputs: &[usize]) -> JointGraph {
    let graph = read_graph(text, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    differentiate(&graph, &GradientRequest::with_cotangents(&[0], inputs))
        .expect("it has a gradient")
}

fn tensor(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7 + seed * 5) % 13) as f64 / 6.5 - 0.9;
    let values: Vec<f64> = (0..count).map(value).collect();
    Tensor::from_f64_slice(DType::F64, shape, &values).expect("the shape has these elements")
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    interpret(graph, inputs, &InterpretOptions::default()).expect("it runs")
}

/// Tensors for a graph's inputs, with sizes by position of their symbols.
fn inputs_of(graph: &Graph, sizes: &[i64]) -> Vec<Tensor> {
    let mut binding = Binding::new();
    for (index, symbol) in graph.dims().symbols().enumerate() {
        let size = sizes[index % sizes.len()];
        binding
            .set(symbol, size)
            .expect("each symbol is bound once");
    }
    let inputs = graph.inputs().iter().enumerate();
    inputs
        .map(|(seed, &input)| {
            if graph.ty(input).innermost().dtype == DType::I64 {
                return Tensor::scalar(3_i64);
            }
            let dims = &graph.ty(input).innermost().dims;
            let size = |&dim| graph.dims().evaluate(dim, &binding).expect("it is bound") as usize;
            tensor(&dims.iter().map(size).collect::<Vec<_>>(), seed)
        })
        .collect()
}

fn assert_equal_halves(joint: &JointGraph, halves: &Partition, inputs: &[Tensor]) {
    let expected = run(&joint.graph, inputs);
    let n_sources = inputs.len() - joint.cotangents.len();
    let mut forward = run(&halves.forward, &inputs[..n_sources]);
    let saved = forward.split_off(halves.n_outputs);
    assert_eq!(saved.len(), halves.n_saved);
    let given: Vec<Tensor> = inputs.iter().chain(&saved).cloned().collect();
    let backward = run(&halves.backward, &given);
    let found: Vec<Tensor> = forward.into_iter().chain(backward).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.shape(), expected.shape());
        let found = found.to_vec::<f64>().expect("it is f64");
        let expected = expected.to_vec::<f64>().expect("it is f64");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0));
        }
    }
}

#[test]
fn halves_compute_what_the_joint_graph_computes() {
    for (text, wanted) in [
        (MLP, vec![1, 2, 3]),
        (MLP, vec![0]),
        (ATTENTION, vec![0, 1, 2]),
        (LOOP, vec![0]),
    ] {
        let joint = joint(text, &wanted);
        for rematerialization in [
            Rematerialization::Nothing,
            Rematerialization::Cheap,
            Rematerialization::Within(20_000),
            Rematerialization::Within(0),
        ] {
            let options = PartitionOptions {
                rematerialization,
                size_hint: 64,
            };
            let halves = partition(&joint, &options).expect("it is partitioned");
            for sizes in [[3, 2, 5, 4], [1, 1, 1, 1], [7, 3, 1, 2]] {
                assert_equal_halves(&joint, &halves, &inputs_of(&joint.graph, &sizes));
            }
        }
    }
}

#[test]
fn more_is_computed_again_the_less_may_be_saved() {
    let joint = joint(MLP, &[0, 1, 2, 3]);
    let bytes = |rematerialization| {
        let options = PartitionOptions {
            rematerialization,
            size_hint: 64,
        };
        let halves = partition(&joint, &options).expect("it is partitioned");
        (halves.n_saved, halves.saved_bytes)
    };
    // The backward graph reads `a`, `h` and `k`, all of which can be recomputed from the product.
    let value = 64 * 64 * 8;
    assert_eq!(bytes(Rematerialization::Nothing), (3, 3 * value));
    assert_eq!(bytes(Rematerialization::Cheap), (1, value));
    assert_eq!(bytes(Rematerialization::Within(value)), (1, value));
    assert_eq!(bytes(Rematerialization::Within(value - 1)), (0, 0));
}
