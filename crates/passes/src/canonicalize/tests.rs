//! The rules of canonical form, one graph each.

use super::canonicalize;
use crate::eliminate_dead_ops;
use crate::testing::{after, is_unchanged, ramp, same_results};
use insta::assert_snapshot;
use kiln_tensor::{Tensor, bf16, f16};

fn canonical(source: &str) -> String {
    after(&[canonicalize, eliminate_dead_ops], source)
}

#[test]
fn constants_are_ordered_after_other_operands() {
    assert_snapshot!(canonical("
graph @main(%x: f32[B], %y: f32[B]) -> (f32[B], f32[B]) {
  %c: f32[] = constant [2.0]
  %1: f32[B] = mul %c, %x
  %2: f32[B] = add %y, %x
  return %1, %2
}"), @r#"
    graph @main(%x: f32[B], %y: f32[B]) -> (f32[B], f32[B]) {
      %c: f32[] = constant [2.0]
      %0: f32[B] = mul %x, %c
      %1: f32[B] = add %x, %y
      return "1" = %0, "2" = %1
    }
    "#);
}

#[test]
fn constants_drop_leading_axes_of_size_one() {
    assert_snapshot!(canonical("
graph @main(%x: f32[N, 2, H], %y: f32[]) -> (f32[N, 2, H], f32[1, 1]) {
  %b: f32[1, 2, 1] = constant [1.0, 2.0]
  %s: f32[1, 1] = constant [3.0]
  %1: f32[N, 2, H] = add %x, %b
  %2: f32[N, 2, H] = sub %s, %1
  %3: f32[1, 1] = add %y, %s
  return %2, %3
}"), @r#"
    graph @main(%x: f32[N, 2, H], %y: f32[]) -> (f32[N, 2, H], f32[1, 1]) {
      %s: f32[1, 1] = constant [3.0]
      %0: f32[2, 1] = constant [1.0, 2.0]
      %1: f32[N, 2, H] = add %x, %0
      %2: f32[] = constant [3.0]
      %3: f32[N, 2, H] = sub %2, %1
      %4: f32[1, 1] = add %y, %s
      return "2" = %3, "3" = %4
    }
    "#);
}

#[test]
fn non_commutative_operands_keep_their_order() {
    assert!(is_unchanged(
        canonicalize,
        "
graph @main(%x: f32[B]) -> f32[B] {
  %c: f32[] = constant [2.0]
  %1: f32[B] = sub %c, %x
  %2: f32[B] = div %c, %1
  return %2
}"
    ));
}

#[test]
fn no_op_movement_is_removed() {
    assert_snapshot!(canonical("
graph @main(%x: f32[B, 4, 6], %zero: f32[]) -> f32[B, 4, 6] {
  %1: f32[B, 4, 6] = reshape %x {dims = [B, 4, 6]}
  %2: f32[B, 4, 6] = transpose %1 {permutation = [0, 1, 2]}
  %3: f32[B, 4, 6] = broadcast %2 {dims = [B, 4, 6]}
  %4: f32[B, 4, 6] = slice %3 {starts = [0, 0, 0], sizes = [B, 4, 6], steps = [1, 1, 1]}
  %5: f32[B, 4, 6] = pad %4, %zero {low = [0, 0, 0], high = [0, 0, 0], mode = edge}
  %6: f32[B, 4, 6] = concat %5 {axis = 1}
  %7: f32[B, 4, 6] = cast %6 {to = f32}
  %8: f32[B, 4, 6] = relu %7
  return %8
}"), @r#"
    graph @main(%x: f32[B, 4, 6], %zero: f32[]) -> f32[B, 4, 6] {
      %0: f32[B, 4, 6] = relu %x
      return "8" = %0
    }
    "#);
}

#[test]
fn a_pool_with_a_window_of_one_is_removed() {
    assert_snapshot!(canonical("
graph @main(%x: f32[N, 4, H, W]) -> f32[N, 4, H, W] {
  %1: f32[N, 4, H, W] = pool %x {function = max, size = [1, 1], strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0]}
  %2: f32[N, 4, H, W] = relu %1
  return %2
}"), @r#"
    graph @main(%x: f32[N, 4, H, W]) -> f32[N, 4, H, W] {
      %0: f32[N, 4, H, W] = relu %x
      return "2" = %0
    }
    "#);
}

/// A resize multiplies neighbours by 0, which turns infinities into NaN, and adds, which turns -0.0 into 0.0.
#[test]
fn a_resize_to_the_same_size_stays() {
    assert!(is_unchanged(
        canonicalize,
        "
graph @main(%x: f32[N, 4, H, W]) -> f32[N, 4, H, W] {
  %1: f32[N, 4, H, W] = resize %x {axes = [2, 3], sizes = [H, W], scales = [1.0, 1.0], mode = linear, coordinates = half_pixel, rounding = floor, cubic_coefficient = -0.75}
  return %1
}"
    ));
}

#[test]
fn consecutive_movement_ops_merge() {
    assert_snapshot!(canonical("
graph @main(%x: f32[B, 4, 6], %s: f32[6]) -> (f32[24, B], f32[6, B, 4], f32[B, 4, 6]) {
  %1: f32[4*B, 6] = reshape %x {dims = [4*B, 6]}
  %2: f32[24, B] = reshape %1 {dims = [24, B]}
  %3: f32[6, 4, B] = transpose %x {permutation = [2, 1, 0]}
  %4: f32[6, B, 4] = transpose %3 {permutation = [0, 2, 1]}
  %5: f32[4, 6] = broadcast %s {dims = [4, 6]}
  %6: f32[B, 4, 6] = broadcast %5 {dims = [B, 4, 6]}
  return %2, %4, %6
}"), @r#"
    graph @main(%x: f32[B, 4, 6], %s: f32[6]) -> (f32[24, B], f32[6, B, 4], f32[B, 4, 6]) {
      %0: f32[24, B] = reshape %x {dims = [24, B]}
      %1: f32[6, B, 4] = transpose %x {permutation = [2, 0, 1]}
      %2: f32[B, 4, 6] = broadcast %s {dims = [B, 4, 6]}
      return "2" = %0, "4" = %1, "6" = %2
    }
    "#);
}

#[test]
fn inverse_transposes_cancel() {
    assert_snapshot!(canonical("
graph @main(%x: f32[A, B, C]) -> f32[A, B, C] {
  %1: f32[B, C, A] = transpose %x {permutation = [1, 2, 0]}
  %2: f32[A, B, C] = transpose %1 {permutation = [2, 0, 1]}
  %3: f32[A, B, C] = neg %2
  return %3
}"), @r#"
    graph @main(%x: f32[A, B, C]) -> f32[A, B, C] {
      %0: f32[A, B, C] = neg %x
      return "3" = %0
    }
    "#);
}

#[test]
fn a_transpose_of_axes_of_size_one_is_a_reshape() {
    assert_snapshot!(canonical("
graph @main(%x: f32[B, 1, S, 1]) -> (f32[1, B, 1, S], f32[S, B, 1, 1]) {
  %1: f32[1, B, 1, S] = transpose %x {permutation = [1, 0, 3, 2]}
  %2: f32[S, B, 1, 1] = transpose %x {permutation = [2, 0, 1, 3]}
  return %1, %2
}"), @r#"
    graph @main(%x: f32[B, 1, S, 1]) -> (f32[1, B, 1, S], f32[S, B, 1, 1]) {
      %0: f32[1, B, 1, S] = reshape %x {dims = [1, B, 1, S]}
      %1: f32[S, B, 1, 1] = transpose %x {permutation = [2, 0, 1, 3]}
      return "1" = %0, "2" = %1
    }
    "#);
}

#[test]
fn a_broadcast_that_adds_leading_ones_becomes_a_reshape() {
    assert_snapshot!(canonical("
graph @main(%x: f32[S, 4]) -> f32[1, 1, S, 4] {
  %1: f32[1, 1, S, 4] = broadcast %x {dims = [1, 1, S, 4]}
  return %1
}"), @r#"
    graph @main(%x: f32[S, 4]) -> f32[1, 1, S, 4] {
      %0: f32[1, 1, S, 4] = reshape %x {dims = [1, 1, S, 4]}
      return "1" = %0
    }
    "#);
}

#[test]
fn slices_in_bounds_are_joined() {
    assert_snapshot!(canonical("
graph @main(%x: f32[20, S]) -> f32[3, S] {
  %1: f32[8, S] = slice %x {starts = [2, 0], sizes = [8, S], steps = [2, 1]}
  %2: f32[3, S] = slice %1 {starts = [6, 0], sizes = [3, S], steps = [-3, 1]}
  return %2
}"), @r#"
    graph @main(%x: f32[20, S]) -> f32[3, S] {
      %0: f32[3, S] = slice %x {starts = [14, 0], sizes = [3, S], steps = [-6, 1]}
      return "2" = %0
    }
    "#);
}

#[test]
fn a_slice_that_may_fault_is_not_joined() {
    assert!(is_unchanged(
        canonicalize,
        "
graph @main(%x: f32[N]) -> f32[2] {
  %1: f32[8] = slice %x {starts = [0], sizes = [8], steps = [1]}
  %2: f32[2] = slice %1 {starts = [0], sizes = [2], steps = [1]}
  return %2
}"
    ));
}

#[test]
fn a_slice_of_sizes_becomes_those_sizes() {
    assert_snapshot!(canonical("
graph @main(%x: f32[B, S]) -> i64[2] {
  %1: i64[4] = dims {sizes = [B, S, B + S, 7]}
  %2: i64[2] = slice %1 {starts = [3], sizes = [2], steps = [-2]}
  return %2
}"), @r#"
    graph @main(%x: f32[B, S]) -> i64[2] {
      %0: i64[2] = dims {sizes = [7, S]}
      return "2" = %0
    }
    "#);
}

#[test]
fn known_sizes_become_a_constant() {
    assert_snapshot!(canonical("
graph @main(%x: f32[N]) -> (i64[2], i64[2]) {
  %1: i64[2] = dims {sizes = [3, 4]}
  %2: i64[2] = dims {sizes = [3, N]}
  return %1, %2
}"), @r#"
    graph @main(%x: f32[N]) -> (i64[2], i64[2]) {
      %0: i64[2] = constant [3, 4]
      %1: i64[2] = dims {sizes = [3, N]}
      return "1" = %0, "2" = %1
    }
    "#);
}

#[test]
fn empty_concat_operands_are_removed() {
    assert_snapshot!(canonical("
graph @main(%x: f32[N, 2], %e: f32[0, 2], %y: f32[M, 2]) -> (f32[M + N, 2], f32[N, 2]) {
  %1: f32[M + N, 2] = concat %x, %e, %y {axis = 0}
  %2: f32[N, 2] = concat %e, %x {axis = 0}
  return %1, %2
}"), @r#"
    graph @main(%x: f32[N, 2], %e: f32[0, 2], %y: f32[M, 2]) -> (f32[M + N, 2], f32[N, 2]) {
      %0: f32[M + N, 2] = concat %x, %y {axis = 0}
      return "1" = %0, "2" = %x
    }
    "#);
}

#[test]
fn sizes_equal_by_a_fact_are_treated_as_equal() {
    assert_snapshot!(canonical("
graph @main(%x: f32[N, 4], %y: f32[M, 4]) -> f32[M, 4] where N == M {
  %1: f32[M, 4] = reshape %x {dims = [M, 4]}
  %2: f32[M, 4] = add %1, %y
  return %2
}"), @r#"
    graph @main(%x: f32[N, 4], %y: f32[M, 4]) -> f32[M, 4] where N == M {
      %0: f32[M, 4] = add %x, %y
      return "2" = %0
    }
    "#);
}

#[test]
fn regions_are_rewritten_too() {
    assert_snapshot!(canonical("
graph @main(%c: bool[], %x: f32[B]) -> f32[B] {
  %1: f32[B] = if %c, %x
    region(%a: f32[B]) {
      %2: f32[B] = reshape %a {dims = [B]}
      %3: f32[B] = neg %2
      yield %3
    }
    region(%b: f32[B]) {
      yield %b
    }
  return %1
}"), @r#"
    graph @main(%c: bool[], %x: f32[B]) -> f32[B] {
      %0: f32[B] = if %c, %x
        region(%a: f32[B]) {
          %1: f32[B] = neg %a
          yield %1
        }
        region(%b: f32[B]) {
          yield %b
        }
      return "1" = %0
    }
    "#);
}

#[test]
fn results_stay_the_same_on_sizes_zero_and_one() {
    for b in [0, 1, 3] {
        same_results(
            "
graph @main(%x: f32[B, 1, 4], %k: f32[]) -> (f32[4, B], f32[1, B, 4], f32[B, 2]) {
  %1: f32[1, B, 4] = transpose %x {permutation = [1, 0, 2]}
  %2: f32[B, 4] = reshape %1 {dims = [B, 4]}
  %3: f32[4, B] = transpose %2 {permutation = [1, 0]}
  %4: f32[1, B, 4] = broadcast %2 {dims = [1, B, 4]}
  %5: f32[B, 4] = slice %2 {starts = [0, 3], sizes = [B, 4], steps = [1, -1]}
  %6: f32[B, 2] = slice %5 {starts = [0, 1], sizes = [B, 2], steps = [1, 2]}
  %7: f32[B, 2] = pad %6, %k {low = [0, 0], high = [0, 0], mode = constant}
  return %3, %4, %7
}",
            &[ramp(&[b, 1, 4]), ramp(&[])],
        );
    }
}

#[test]
fn combining_scatters_join_in_a_dtype_that_holds_every_sum() {
    assert_snapshot!(canonical("
graph @main(%x: f16[N], %i: i64[K], %u: f16[K], %t: bool[N], %v: bool[K]) -> (f16[N], bool[N], f16[N]) {
  %1: f16[N] = scatter_elements %x, %i, %u {axis = 0, combine = add}
  %2: bool[N] = scatter_elements %t, %i, %v {axis = 0, combine = mul}
  %3: f16[N] = scatter_elements %x, %i, %u {axis = 0, combine = max}
  return %1, %2, %3
}"), @r#"
    graph @main(%x: f16[N], %i: i64[K], %u: f16[K], %t: bool[N], %v: bool[K]) -> (f16[N], bool[N], f16[N]) {
      %0: f64[N] = cast %x {to = f64}
      %1: f64[K] = cast %u {to = f64}
      %2: f64[N] = scatter_elements %0, %i, %1 {axis = 0, combine = add}
      %3: f16[N] = cast %2 {to = f16}
      %4: u8[N] = cast %t {to = u8}
      %5: u8[K] = cast %v {to = u8}
      %6: u8[N] = scatter_elements %4, %i, %5 {axis = 0, combine = min}
      %7: bool[N] = cast %6 {to = bool}
      %8: f16[N] = scatter_elements %x, %i, %u {axis = 0, combine = max}
      return "1" = %3, "2" = %7, "3" = %8
    }
    "#);
}

#[test]
fn widened_scatters_keep_every_bit() {
    let half = |elements: &[f32]| {
        let elements: Vec<f16> = elements.iter().map(|&x| f16::from_f32(x)).collect();
        Tensor::from_slice(&[elements.len()], &elements).unwrap()
    };
    let brain = |elements: &[f32]| {
        let elements: Vec<bf16> = elements.iter().map(|&x| bf16::from_f32(x)).collect();
        Tensor::from_slice(&[elements.len()], &elements).unwrap()
    };
    let indices = Tensor::from_slice(&[5], &[0_i64, 2, 0, -1, 0]).unwrap();
    // Sums that lose halves one by one, overflow that a later update reverses, zeros and non-finite values.
    let x = [2048.0, -0.0, 60000.0];
    let updates = [1.0, 60000.0, 1.0, -60000.0, 1.0];
    let special = [f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY, -0.0];
    let truths = |elements: &[bool]| Tensor::from_slice(&[elements.len()], elements).unwrap();
    let texts = |dtype: &str, combine: &str| {
        format!(
            "graph @main(%x: {dtype}[N], %i: i64[K], %u: {dtype}[K]) -> {dtype}[N] {{
  %1: {dtype}[N] = scatter_elements %x, %i, %u {{axis = 0, combine = {combine}}}
  return %1
}}"
        )
    };
    for combine in ["add", "mul", "min", "max", "set"] {
        for updates in [updates, special] {
            let inputs = [half(&x), indices.clone(), half(&updates)];
            same_results(&texts("f16", combine), &inputs);
            let inputs = [brain(&x), indices.clone(), brain(&updates)];
            same_results(&texts("bf16", combine), &inputs);
        }
        let inputs = [
            truths(&[true, false, true]),
            indices.clone(),
            truths(&[true, true, false, false, true]),
        ];
        same_results(&texts("bool", combine), &inputs);
    }
    let text = "
graph @main(%x: bf16[N, 2], %i: i64[K, 1], %u: bf16[K, 2]) -> bf16[N, 2] {
  %1: bf16[N, 2] = scatter_nd %x, %i, %u {combine = add}
  return %1
}";
    let pairs = |rows: usize| brain(&vec![0.3; 2 * rows]).reshape(&[rows, 2]).unwrap();
    let rows = Tensor::from_slice(&[4, 1], &[1_i64, 1, 1, 7]).unwrap();
    same_results(text, &[pairs(8), rows.clone(), pairs(4)]);
    // Out of range before and after.
    same_results(text, &[pairs(3), rows, pairs(4)]);
}

#[test]
fn concats_with_many_operands_are_built_in_steps() {
    for n in [33, 80, 400] {
        let list = |make: &dyn Fn(usize) -> String| -> String {
            (0..n).map(make).collect::<Vec<_>>().join(", ")
        };
        let inputs = list(&|i| format!("%x{i}: f32[N{i}, 2]"));
        let operands = list(&|i| format!("%x{i}"));
        let source = format!(
            "graph @main({inputs}) -> () {{\n  %y = concat {operands} {{axis = 0}}\n  return\n}}"
        );
        let mut before =
            kiln_shape_inference::read_graph(&source, &kiln_ir::BlobMap::new()).unwrap();
        let (op, _) = before.ops().next().unwrap();
        let result = before.op(op).results[0];
        before.set_outputs([("y", result)]);
        let (after, _) = crate::testing::optimized(before.clone());
        let widest = after.ops().map(|(_, data)| data.operands.len()).max();
        assert!(
            after.n_ops() > 1 && widest.unwrap() <= 32,
            "{n}: {widest:?}"
        );
        let inputs: Vec<Tensor> = (0..n).map(|i| ramp(&[i % 3, 2])).collect();
        crate::testing::assert_same(&before, &after, &inputs);
    }
}
