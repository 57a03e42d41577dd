//! What must not fuse: broadcasting that repeats work, sizes not known to be equal, sizes 0 and 1, lost classes.

use super::{nodes, planned};
use crate::{FusionOptions, plan};
use insta::assert_snapshot;
use kiln_symbolic_shape::FactSelection;

#[test]
fn expensive_work_is_not_repeated_by_broadcasting() {
    assert_snapshot!(nodes("graph @main(%x: f32[B], %y: f32[A, B]) {
        %1 = exp %x
        %2 = mul %y, %1
        return %2
    }"), @"exp (map); mul (map)");
    // Cheap work may be repeated.
    assert_snapshot!(nodes("graph @main(%x: f32[B], %y: f32[A, B]) {
        %1 = neg %x
        %2 = mul %y, %1
        return %2
    }"), @"neg_mul (map)");
}

#[test]
fn a_mean_is_not_taken_again_at_each_tap_of_a_resize() {
    assert_snapshot!(nodes("graph @main(%x: f32[N, H, W]) {
        %1 = reduce %x {function = mean, axes = [1, 2], keep_dims}
        %2 = sub %x, %1
        %3 = resize %2 {axes = [1, 2], sizes = [2*H, 2*W], scales = [2.0, 2.0], mode = linear, coordinates = half_pixel, rounding = floor, cubic_coefficient = -0.75}
        return %3
    }"), @"reduce (row); sub_resize (map)");
}

#[test]
fn unequal_symbols_fuse_under_a_recorded_fact_alone() {
    let source = "graph @main(%x: f32[A], %y: f32[B]) {
        %1 = neg %x
        %2 = add %1, %y
        %3 = exp %2
        return %3
    }";
    let (graph, with) = planned(source);
    assert_eq!(with.count("kernel"), 1);
    let node = with.nodes().next().unwrap();
    assert_eq!(node.facts.len(), 1);
    assert_eq!(node.facts[0].name(graph.dims()), "A == B");

    // Without the fact the sum stays separate, whatever the sizes will be: 1 is like any other.
    let without = plan(
        &graph,
        &FusionOptions::new().with_facts(FactSelection::None),
    )
    .unwrap();
    assert!(without.facts().is_empty());
    assert!(without.count("kernel") > 1);
    assert!(!without.near_misses().is_empty());
}

#[test]
fn sizes_that_differ_or_may_be_zero_or_one_are_never_taken_for_equal() {
    // Siblings over different sizes.
    assert_snapshot!(nodes("graph @main(%x: f32[A], %s: f32[]) {
        %1 = mul %x, %s
        %2 = reduce %1 {function = sum, axes = [0]}
        %3 = neg %s
        return %2, %3
    }"), @"mul_reduce_neg (row)");
    // `A >= 0` may be 1 without being the size 1: the row is a row.
    assert_snapshot!(nodes("graph @main(%x: f32[A, B], %y: f32[A, 1]) {
        %1 = mul %x, %y
        return %1
    }"), @"mul (map)");
    assert_snapshot!(nodes("graph @main(%x: f32[0, 4]) {
        %1 = exp %x
        %2 = reduce %1 {function = sum, axes = [0]}
        return %2
    }"), @"exp_reduce (row)");
}

#[test]
fn a_contraction_keeps_its_class() {
    // Rows of a product are not held by its schedule.
    assert_snapshot!(nodes("graph @main(%x: f32[M, K], %w: f32[K, N]) {
        %1 = matmul %x, %w
        %2 = reduce %1 {function = sum, axes = [1]}
        return %2
    }"), @"matmul (contraction); reduce (row)");
    // Two products, a product of repeated work, a result that is broadcast.
    assert_snapshot!(nodes("graph @main(%x: f32[M, K], %w: f32[K, N], %v: f32[N, L]) {
        %1 = matmul %x, %w
        %2 = relu %1
        %3 = matmul %2, %v
        return %3
    }"), @"matmul_relu (contraction); matmul (contraction)");
    assert_snapshot!(nodes("graph @main(%x: f32[M, K], %w: f32[K, N], %y: f32[B, M, N]) {
        %1 = matmul %x, %w
        %2 = add %1, %y
        return %2
    }"), @"matmul (contraction); add (map)");
    assert_snapshot!(nodes("graph @main(%x: f32[N, 8, H, W], %g: f32[N, 8, 1, 1], %w: f32[4, 8, 3, 3]) {
        %0 = mul %x, %g
        %1 = conv %0, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
        return %1
    }"), @"mul (map); conv (window)");
    assert_snapshot!(nodes("graph @main(%x: f32[M, K], %w: f32[K, N]) {
        %0 = exp %x
        %1 = matmul %0, %w
        return %1
    }"), @"exp (map); matmul (contraction)");
}

#[test]
fn rows_over_different_axes_stay_separate() {
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = reduce %x {function = sum, axes = [1]}
        %2 = reduce %1 {function = sum, axes = [0]}
        return %2
    }"), @"reduce (row); reduce (row)");
    // The whole tensor as one row would run on one thread.
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = reduce %x {function = sum, axes = [0, 1], keep_dims}
        %2 = div %x, %1
        return %2
    }"), @"reduce (row); div (map)");
}

#[test]
fn nodes_run_after_their_operands() {
    // The sum may not join the two ops around the product.
    assert_snapshot!(nodes("graph @main(%x: f32[A, A], %w: f32[A, A]) {
        %1 = exp %x
        %2 = matmul %1, %w
        %3 = add %1, %2
        return %3
    }"), @"exp (map); matmul_add (contraction)");
}

#[test]
fn gather_operands_are_materialized() {
    assert_snapshot!(nodes("graph @main(%x: f32[V, 4], %i: i64[N]) {
        %1 = exp %x
        %2 = gather %1, %i {axis = 0}
        %3 = neg %2
        return %3
    }"), @"exp (map); gather_neg (map)");
}

#[test]
fn group_and_op_limits_are_enforced() {
    let mut source = String::from("graph @main(%x: f32[A]) {\n");
    for step in 0..300 {
        let operand = if step == 0 {
            "%x".to_owned()
        } else {
            format!("%v{}", step - 1)
        };
        source.push_str(&format!("%v{step} = neg {operand}\n"));
    }
    source.push_str("return %v299 }");
    let (_, plan) = planned(&source);
    assert!(plan.count("kernel") >= 4 && plan.count("kernel") <= 8);
    assert!(plan.nodes().all(|node| node.ops.len() <= 96));
}
