//! The benefit of individual rules. Which ops the rules join is tested by files (`testkit/testdata/fusion`).

use super::{op, planned, read};
use crate::{FusionOptions, FusionPlan, plan};

#[test]
fn matmul_bias_relu_moves_a_third_of_the_intermediate_bytes() {
    let (_, plan) = planned(
        "graph @main(%x: f32[512, 64], %w: f32[64, 512], %b: f32[512]) {
        %1 = matmul %x, %w
        %2 = add %1, %b
        %3 = relu %2
        return %3
    }",
    );
    let node = plan.nodes().next().unwrap();
    // Unfused, the product and the sum are written and read, and the result is written: five times the tensor.
    let tensor = 512 * 512 * 4;
    assert_eq!(node.benefit.bytes_saved, 4 * tensor);
    let between = node.benefit.bytes_saved + tensor;
    assert!(between >= 3 * tensor);
}

/// Whether two values are computed in one node.
fn are_together(graph: &kiln_ir::Graph, plan: &FusionPlan, a: &str, b: &str) -> bool {
    plan.node_of(op(graph, a)) == plan.node_of(op(graph, b))
}

#[test]
fn moved_narrow_numbers_are_widened_where_products_read_them() {
    let (graph, plan) = planned(
        "graph @main(%x: f32[M, K], %w: f32[N, K]) {
        %1 = cast %x {to = bf16}
        %2 = cast %1 {to = f32}
        %3 = exp %w
        %4 = cast %3 {to = bf16}
        %5 = transpose %4 {permutation = [1, 0]}
        %6 = cast %5 {to = f32}
        %7 = matmul %2, %6
        return %7
    }",
    );
    assert!(are_together(&graph, &plan, "%6", "%7"), "{plan}");
    assert!(are_together(&graph, &plan, "%5", "%7"), "{plan}");
    assert!(are_together(&graph, &plan, "%3", "%4"), "{plan}");
    assert!(!are_together(&graph, &plan, "%4", "%6"), "{plan}");
}

#[test]
fn windows_widen_narrow_numbers_where_the_device_does() {
    let graph = read(
        "graph @main(%x: bf16[N, 8, H, W], %w: f32[4, 8, 3, 3]) {
        %1 = cast %x {to = f32}
        %2 = conv %1, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
        return %2
    }",
    );
    for widens in [false, true] {
        let options = FusionOptions::new().with_widening_in_windows(widens);
        let plan = plan(&graph, &options).unwrap();
        assert_eq!(are_together(&graph, &plan, "%1", "%2"), widens, "{plan}");
    }
}
