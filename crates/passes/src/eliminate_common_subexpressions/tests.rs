//! Which ops are merged, and which are not.

use super::eliminate_common_subexpressions;
use crate::testing::{after, is_unchanged};
use insta::assert_snapshot;

#[test]
fn repeated_computations_are_merged() {
    assert_snapshot!(after(&[eliminate_common_subexpressions], "
graph @main(%x: f32[B, 4], %k: u64[2]) -> (f32[B, 4], f32[4, B], f32[4, B], u32[B], u32[B]) {
  %1: f32[] = constant [2.0]
  %2: f32[] = constant [2.0]
  %3: f32[B, 4] = mul %x, %1
  %4: f32[B, 4] = mul %x, %2
  %5: f32[B, 4] = add %3, %4
  %6: f32[4, B] = transpose %5 {permutation = [1, 0]}
  %7: f32[4, B] = transpose %5 {permutation = [1, 0]}
  %8: u32[B] = random_bits %k {dims = [B]}
  %9: u32[B] = random_bits %k {dims = [B]}
  return %5, %6, %7, %8, %9
}"), @r#"
    graph @main(%x: f32[B, 4], %k: u64[2]) -> (f32[B, 4], f32[4, B], f32[4, B], u32[B], u32[B]) {
      %0: f32[] = constant [2.0]
      %1: f32[B, 4] = mul %x, %0
      %2: f32[B, 4] = add %1, %1
      %3: f32[4, B] = transpose %2 {permutation = [1, 0]}
      %4: u32[B] = random_bits %k {dims = [B]}
      return "5" = %2, "6" = %3, "7" = %3, "8" = %4, "9" = %4
    }
    "#);
}

#[test]
fn signed_zeros_different_attributes_and_custom_ops_are_not_merged() {
    assert!(is_unchanged(
        eliminate_common_subexpressions,
        r#"
graph @main(%x: f32[B]) -> (f32[B], f32[B], f32[B], f32[B], f32[1], f32[1]) {
  %1: f32[] = constant [0.0]
  %2: f32[] = constant [-0.0]
  %3: f32[B] = div %x, %1
  %4: f32[B] = div %x, %2
  %5: f32[B] = leaky_relu %x {alpha = 0.0}
  %6: f32[B] = leaky_relu %x {alpha = -0.0}
  %7: f32[1] = slice %x {starts = [0], sizes = [1], steps = [1]}
  %8: f32[1] = slice %x {starts = [0], sizes = [1], steps = [-1]}
  return %3, %4, %5, %6, %7, %8
}"#
    ));
}

/// A region cannot see values from outside, so its constants stay separate.
#[test]
fn merging_respects_region_scopes() {
    assert_snapshot!(after(&[eliminate_common_subexpressions], "
graph @main(%c: bool[], %x: f32[B]) -> (f32[B], f32[B]) {
  %1: f32[] = constant [2.0]
  %2: f32[B] = mul %x, %1
  %3: f32[B] = if %c, %x
    region(%a: f32[B]) {
      %4: f32[] = constant [2.0]
      %5: f32[B] = mul %a, %4
      %6: f32[] = constant [2.0]
      %7: f32[B] = mul %a, %6
      %8: f32[B] = add %5, %7
      yield %8
    }
    region(%b: f32[B]) {
      %9: f32[] = constant [2.0]
      %10: f32[B] = mul %b, %9
      yield %10
    }
  return %2, %3
}"), @r#"
    graph @main(%c: bool[], %x: f32[B]) -> (f32[B], f32[B]) {
      %0: f32[] = constant [2.0]
      %1: f32[B] = mul %x, %0
      %2: f32[B] = if %c, %x
        region(%a: f32[B]) {
          %3: f32[] = constant [2.0]
          %4: f32[B] = mul %a, %3
          %5: f32[B] = add %4, %4
          yield %5
        }
        region(%b: f32[B]) {
          %6: f32[] = constant [2.0]
          %7: f32[B] = mul %b, %6
          yield %7
        }
      return "2" = %1, "3" = %2
    }
    "#);
}

#[test]
fn ops_that_define_symbols_stay() {
    assert!(is_unchanged(
        eliminate_common_subexpressions,
        "
graph @main(%n: i64[1]) -> (i64[m], i64[k]) {
  bind %n -> (m)
  bind %n -> (k)
  %1: i64[m] = iota {dims = [m], axis = 0, dtype = i64}
  %2: i64[k] = iota {dims = [k], axis = 0, dtype = i64}
  return %1, %2
}"
    ));
}
