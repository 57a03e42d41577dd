//! Explanations, and the text of guarded plans.

use super::{op, planned, value};
use insta::assert_snapshot;
use kiln_symbolic_shape::FactSelection;

#[test]
fn two_ops_of_one_kernel() {
    let (graph, plan) = planned(
        "graph @main(%x: f32[M, K], %w: f32[K, N], %b: f32[N]) {
        %1 = matmul %x, %w
        %2 = add %1, %b
        %3 = relu %2
        return %3
    }",
    );
    let why = plan
        .explain(&graph, value(&graph, "%2"), value(&graph, "%3"))
        .unwrap();
    assert!(why.together.is_some());
    assert_snapshot!(why, @"
    add %v2 and relu %v3 are in one node: node0 @matmul_add_relu, a contraction
      matmul %v1 with add %v2: epilogue, 32768 bytes less
      add %v2 with relu %v3: epilogue, 32768 bytes less
      1.33x, 65536 bytes and 2 kernels saved, complexity 6
    ");
    let error = plan
        .explain(&graph, value(&graph, "%x"), value(&graph, "%3"))
        .unwrap_err();
    assert_snapshot!(error, @"expected the result of an op of this graph, found %0");
}

#[test]
fn two_ops_of_two_kernels() {
    let (graph, plan) = planned(
        "graph @main(%x: f32[M, K], %w: f32[K, N], %y: f32[M]) {
        %1 = matmul %x, %w
        %2 = relu %1
        %3 = reduce %2 {function = sum, axes = [1]}
        %4 = neg %y
        return %3, %4
    }",
    );
    let why = plan
        .explain(&graph, op(&graph, "%1"), op(&graph, "%3"))
        .unwrap();
    assert_snapshot!(why, @"
    matmul %v1 is in node0 @matmul_relu (kernel), reduce %v3 in node1 @reduce (kernel)
    node0 @matmul_relu gives f32[M, N] to node1 @reduce
      reduce %v3 reduces the result of matmul %v1, whose schedule does not keep whole rows
    ");
    let why = plan
        .explain(&graph, op(&graph, "%1"), op(&graph, "%4"))
        .unwrap();
    assert_snapshot!(why, @"
    matmul %v1 is in node0 @matmul_relu (kernel), neg %v4 in node2 @neg (kernel)
      neither reads the other, and they read nothing in common
    ");
}

#[test]
fn a_fact_that_would_do_is_named() {
    let source = "graph @main(%x: f32[A], %y: f32[B]) {
        %1 = neg %x
        %2 = add %1, %y
        return %2
    }";
    let (graph, with) = planned(source);
    let facts = with.facts();
    let facts = facts.iter().map(|fact| fact.name(graph.dims()));
    assert_eq!(facts.collect::<Vec<_>>(), ["A == B"]);

    let options = crate::FusionOptions::new().with_facts(FactSelection::None);
    let without = crate::plan(&graph, &options).unwrap();
    let near = without.near_misses().first().unwrap();
    let why = without
        .explain(&graph, near.producer, near.consumer)
        .unwrap();
    assert!(why.fact.is_some());
    assert_snapshot!(why, @"
    neg %v1 is in node0 @neg (kernel), add %v2 in node1 @add (kernel)
    node0 @neg gives f32[A] to node1 @add
      A and bcast(A, B), which meet at %v2, are not proved equal; under the fact A == bcast(A, B) the ops would fuse
    near miss: A and bcast(A, B), which meet at %v2, are not proved equal; under the fact A == bcast(A, B) the ops would fuse
    ");
}

#[test]
fn a_plan_prints() {
    let (_, plan) = planned(
        "graph @main(%x: f32[A, 384], %w: f32[384, 384]) {
        %1 = matmul %x, %w
        %2 = reshape %1 {dims = [A, 12, 32]}
        %3 = reduce %2 {function = sum, axes = [2]}
        return %3
    }",
    );
    assert_snapshot!(plan, @"
    fusion @main: 2 kernels, 1 views, 0 builtins, 0 interpreted, 0 constants
      node0 kernel @matmul (contraction) [%0, %1] -> [%2] 1 ops
      node1 view @reshape [%2] -> [%3] 1 ops
      node2 kernel @reduce (row) [%3] -> [%4] 1 ops
    ");
}
