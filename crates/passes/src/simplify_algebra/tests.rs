//! The algebraic rules, and the values they must not change.

use super::simplify_algebra;
use crate::testing::{after, floats, is_unchanged, ramp, same_results};
use crate::{canonicalize, eliminate_dead_ops};
use insta::assert_snapshot;
use kiln_tensor::Tensor;

#[test]
fn scalar_integer_constants_combine() {
    assert_snapshot!(after(&[simplify_algebra, crate::fold_constants, eliminate_dead_ops], "
graph @main(%i: i64[B]) -> i64[B] {
  %1: i64[] = constant [9223372036854775807]
  %2: i64[] = constant [2]
  %3: i64[B] = add %i, %1
  %4: i64[B] = add %3, %2
  %5: i64[B] = mul %4, %2
  return %5
}"), @r#"
    graph @main(%i: i64[B]) -> i64[B] {
      %0: i64[] = constant [2]
      %1: i64[] = constant [-9223372036854775807]
      %2: i64[B] = add %i, %1
      %3: i64[B] = mul %2, %0
      return "5" = %3
    }
    "#);
}

#[test]
fn mish_that_is_spelled_out_is_one_function() {
    assert_snapshot!(after(&[simplify_algebra, eliminate_dead_ops], "
graph @main(%x: f32[B], %y: f32[B], %h: f16[B]) -> (f32[B], f32[B], f16[B]) {
  %1: f32[B] = softplus %x
  %2: f32[B] = tanh %1
  %3: f32[B] = mul %2, %x
  %4: f32[B] = mul %2, %y
  %5: f16[B] = softplus %h
  %6: f16[B] = tanh %5
  %7: f16[B] = mul %6, %h
  return %3, %4, %7
}"), @r#"
    graph @main(%x: f32[B], %y: f32[B], %h: f16[B]) -> (f32[B], f32[B], f16[B]) {
      %0: f32[B] = softplus %x
      %1: f32[B] = tanh %0
      %2: f32[B] = mish %x
      %3: f32[B] = mul %1, %y
      %4: f16[B] = softplus %h
      %5: f16[B] = tanh %4
      %6: f16[B] = mul %5, %h
      return "3" = %2, "4" = %3, "7" = %6
    }
    "#);
}

#[test]
fn sizes_taken_apart_and_put_together() {
    let passes: [crate::testing::Pass; 5] = [
        simplify_algebra,
        canonicalize,
        simplify_algebra,
        canonicalize,
        eliminate_dead_ops,
    ];
    assert_snapshot!(after(&passes, "
graph @main(%x: f32[B, S, 4]) -> (i64[4], i64[]) {
  %1: i64[3] = dims {sizes = [B, S, 4]}
  %2: i64[2] = slice %1 {starts = [2], sizes = [2], steps = [-2]}
  %3: i64[1] = constant [7]
  %4: i64[] = constant [-2]
  %5: i64[] = gather %1, %4 {axis = 0}
  %6: i64[1] = reshape %5 {dims = [1]}
  %7: i64[4] = concat %2, %3, %6 {axis = 0}
  return %7, %5
}"), @r#"
    graph @main(%x: f32[B, S, 4]) -> (i64[4], i64[]) {
      %0: i64[1] = dims {sizes = [S]}
      %1: i64[] = reshape %0 {dims = []}
      %2: i64[4] = dims {sizes = [4, B, 7, S]}
      return "7" = %2, "5" = %1
    }
    "#);
}

#[test]
fn results_stay_the_same_for_every_kind_of_float() {
    let edges = [
        0.0,
        -0.0,
        1.5,
        -2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-45,
        f32::MAX,
    ];
    let source = "
graph @main(%x: f32[N]) -> (f32[N], f32[N], f32[N], f32[N], f32[N], f32[N], f32[1, N], f32[N]) {
  %1: f32[] = constant [-0.0]
  %2: f32[] = constant [0.0]
  %3: f32[] = constant [0.5]
  %4: f32[] = constant [-0.5]
  %5: f32[] = constant [4.0]
  %6: f32[N] = add %x, %1
  %7: f32[N] = sub %6, %2
  %8: f32[N] = pow %7, %3
  %9: f32[N] = abs %x
  %10: f32[N] = pow %9, %3
  %11: f32[N] = pow %9, %4
  %12: f32[N] = div %x, %5
  %13: f32[N] = add %x, %2
  %14: f32[N] = max %x, %x
  %15: f32[1, N] = reshape %x {dims = [1, N]}
  %16: f32[1, N] = reduce %15 {function = sum, axes = [0], keep_dims}
  %17: f32[N] = neg %x
  %18: f32[N] = abs %17
  return %7, %8, %10, %11, %12, %13, %16, %18
}";
    same_results(source, &[floats(&[9], &edges)]);
    same_results(source, &[floats(&[0], &[])]);
}

#[test]
fn an_out_of_bounds_gather_still_faults() {
    let source = "
graph @main(%x: f32[N, 2]) -> (f32[2], f32[2]) {
  %1: i64[] = constant [2]
  %2: i64[] = constant [-2]
  %3: f32[2] = gather %x, %1 {axis = 0}
  %4: f32[2] = gather %x, %2 {axis = 0}
  return %3, %4
}";
    same_results(source, &[ramp(&[3, 2])]);
    let graphs = crate::testing::graph(source);
    let (after, _) = crate::testing::optimized(graphs.clone());
    for n in [0, 1, 2] {
        for graph in [&graphs, &after] {
            assert!(
                kiln_interpreter::interpret(graph, &[ramp(&[n, 2])], &Default::default()).is_err()
            );
        }
    }
}

#[test]
fn an_always_out_of_bounds_gather_is_kept() {
    let source = "
graph @main(%x: f32[0, 3]) -> (f32[3], f32[0]) {
  %1: i64[] = constant [-1]
  %2: f32[3] = gather %x, %1 {axis = 0}
  %3: i64[] = constant [3]
  %4: f32[0] = gather %x, %3 {axis = 1}
  return %2, %4
}";
    assert!(is_unchanged(simplify_algebra, source));
}

#[test]
fn a_size_too_large_for_the_dtype_is_not_rewritten() {
    let source = "
graph @main(%x: f32[N]) -> f32[] {
  %1: i64[] = constant [-9223372036854775808]
  %2: f32[] = gather %x, %1 {axis = 0}
  return %2
}";
    let graph = crate::testing::graph(source);
    let (after, _) = crate::testing::optimized(graph);
    assert!(
        kiln_interpreter::interpret(
            &after,
            &[Tensor::scalar(0.0_f32).reshape(&[1]).unwrap()],
            &Default::default()
        )
        .is_err()
    );
}
