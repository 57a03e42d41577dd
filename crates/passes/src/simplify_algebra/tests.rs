//! The rules of algebra, and the values they must not change.

use super::simplify_algebra;
use crate::testing::{after, floats, is_unchanged, ramp, same_results};
use crate::{canonicalize, eliminate_dead_ops};
use insta::assert_snapshot;
use kiln_tensor::Tensor;

fn simplified(source: &str) -> String {
    after(
        &[canonicalize, simplify_algebra, eliminate_dead_ops],
        source,
    )
}

#[test]
fn neutral_operands_are_removed() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, 4], %i: i64[B], %b: bool[B]) -> (f32[B, 4], i64[B], bool[B]) {
  %1: f32[] = constant [-0.0]
  %2: f32[] = constant [1.0]
  %3: f32[4] = constant [0.0, 0.0, 0.0, 0.0]
  %4: i64[] = constant [0]
  %5: bool[] = constant [true]
  %6: f32[B, 4] = add %1, %x
  %7: f32[B, 4] = mul %6, %2
  %8: f32[B, 4] = div %7, %2
  %9: f32[B, 4] = sub %8, %3
  %10: f32[B, 4] = pow %9, %2
  %11: f32[B, 4] = relu %10
  %12: i64[B] = add %i, %4
  %13: i64[B] = neg %12
  %14: bool[B] = and %5, %b
  %15: bool[B] = not %14
  return %11, %13, %15
}"), @r#"
    graph @main(%x: f32[B, 4], %i: i64[B], %b: bool[B]) -> (f32[B, 4], i64[B], bool[B]) {
      %0: f32[B, 4] = relu %x
      %1: i64[B] = neg %i
      %2: bool[B] = not %b
      return "11" = %0, "13" = %1, "15" = %2
    }
    "#);
}

/// -0.0 + 0.0 is 0.0, and 0 * NaN is NaN.
#[test]
fn operands_that_only_look_neutral_are_kept() {
    assert!(is_unchanged(
        simplify_algebra,
        "
graph @main(%x: f32[B], %y: f32[B]) -> (f32[B], f32[B], f32[B], f32[B]) {
  %1: f32[] = constant [0.0]
  %2: f32[] = constant [-0.0]
  %4: f32[B] = add %x, %1
  %5: f32[B] = sub %x, %2
  %6: f32[B] = mul %x, %1
  %7: f32[B] = sub %y, %y
  return %4, %5, %6, %7
}"
    ));
}

#[test]
fn integer_identities_do_not_apply_to_floats() {
    assert_snapshot!(simplified("
graph @main(%i: i32[B, 2], %b: bool[B]) -> (i32[B, 2], i32[B, 2], bool[B], bool[B]) {
  %1: i32[] = constant [0]
  %2: bool[] = constant [false]
  %3: i32[B, 2] = mul %i, %1
  %4: i32[B, 2] = sub %i, %i
  %5: bool[B] = and %b, %2
  %6: bool[B] = xor %b, %b
  return %3, %4, %5, %6
}"), @r#"
    graph @main(%i: i32[B, 2], %b: bool[B]) -> (i32[B, 2], i32[B, 2], bool[B], bool[B]) {
      %0: i32[] = constant [0]
      %1: i32[B, 2] = broadcast %0 {dims = [B, 2]}
      %2: i32[] = constant [0]
      %3: i32[B, 2] = broadcast %2 {dims = [B, 2]}
      %4: bool[] = constant [false]
      %5: bool[B] = broadcast %4 {dims = [B]}
      %6: bool[] = constant [false]
      %7: bool[B] = broadcast %6 {dims = [B]}
      return "3" = %1, "4" = %3, %5, "6" = %7
    }
    "#);
}

#[test]
fn repeated_functions_collapse() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B], %b: bool[B]) -> (f32[B], bool[B], f32[B], f32[B], f32[B]) {
  %1: f32[B] = neg %x
  %2: f32[B] = neg %1
  %3: bool[B] = not %b
  %4: bool[B] = not %3
  %5: f32[B] = abs %1
  %6: f32[B] = abs %5
  %7: f32[B] = floor %x
  %8: f32[B] = round_even %7
  %9: f32[B] = relu %8
  %10: f32[B] = relu %9
  %11: f32[B] = exp %2
  return %11, %4, %6, %8, %10
}"), @r#"
    graph @main(%x: f32[B], %b: bool[B]) -> (f32[B], bool[B], f32[B], f32[B], f32[B]) {
      %0: f32[B] = abs %x
      %1: f32[B] = floor %x
      %2: f32[B] = relu %1
      %3: f32[B] = exp %x
      return "11" = %3, "4" = %b, "6" = %0, "8" = %1, "10" = %2
    }
    "#);
}

#[test]
fn abs_of_a_negated_unsigned_is_kept() {
    assert_snapshot!(simplified("
graph @main(%x: u32[B], %y: i32[B]) -> (u32[B], i32[B]) {
  %1: u32[B] = neg %x
  %2: u32[B] = abs %1
  %3: i32[B] = neg %y
  %4: i32[B] = abs %3
  return %2, %4
}"), @r#"
    graph @main(%x: u32[B], %y: i32[B]) -> (u32[B], i32[B]) {
      %0: u32[B] = neg %x
      %1: u32[B] = abs %0
      %2: i32[B] = abs %y
      return "2" = %1, "4" = %2
    }
    "#);
}

#[test]
fn functions_of_equal_operands_simplify() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B], %b: bool[B]) -> (f32[B], f32[B], bool[B]) {
  %1: f32[B] = max %x, %x
  %2: f32[B] = min %1, %x
  %3: f32[B] = neg %2
  %4: f32[B] = mul %x, %x
  %5: bool[B] = or %b, %b
  %6: bool[B] = not %5
  return %3, %4, %6
}"), @r#"
    graph @main(%x: f32[B], %b: bool[B]) -> (f32[B], f32[B], bool[B]) {
      %0: f32[B] = neg %x
      %1: f32[B] = square %x
      %2: bool[B] = not %b
      return "3" = %0, "4" = %1, "6" = %2
    }
    "#);
}

#[test]
fn negations_are_merged_into_sums() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B], %y: f32[B]) -> (f32[B], f32[B], f32[B]) {
  %1: f32[B] = neg %y
  %2: f32[B] = add %x, %1
  %3: f32[B] = sub %x, %1
  %4: f32[B] = neg %x
  %5: f32[B] = add %4, %y
  return %2, %3, %5
}"), @r#"
    graph @main(%x: f32[B], %y: f32[B]) -> (f32[B], f32[B], f32[B]) {
      %0: f32[B] = sub %x, %y
      %1: f32[B] = add %x, %y
      %2: f32[B] = sub %y, %x
      return "2" = %0, "3" = %1, "5" = %2
    }
    "#);
}

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
fn division_by_a_power_of_two_multiplies() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B], %h: f16[B]) -> (f32[B], f32[B], f16[B]) {
  %1: f32[] = constant [8.0]
  %2: f32[] = constant [3.0]
  %3: f16[] = constant [32768.0]
  %4: f32[B] = div %x, %1
  %5: f32[B] = div %x, %2
  %6: f16[B] = div %h, %3
  return %4, %5, %6
}"), @r#"
    graph @main(%x: f32[B], %h: f16[B]) -> (f32[B], f32[B], f16[B]) {
      %0: f32[] = constant [3.0]
      %1: f32[] = constant [0.125]
      %2: f32[B] = mul %x, %1
      %3: f32[B] = div %x, %0
      %4: f16[] = constant [3.0517578e-5]
      %5: f16[B] = mul %h, %4
      return "4" = %2, "5" = %3, "6" = %5
    }
    "#);
}

#[test]
fn powers_become_cheaper_functions() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B]) -> (f32[B], f32[B], f32[B], f32[B], f32[B]) {
  %1: f32[] = constant [2.0]
  %2: f32[] = constant [-1.0]
  %3: f32[] = constant [0.5]
  %4: f32[] = constant [-0.5]
  %eps: f32[] = constant [0.00001]
  %5: f32[B] = pow %x, %1
  %6: f32[B] = pow %x, %2
  %7: f32[B] = pow %x, %3
  %8: f32[B] = add %5, %eps
  %9: f32[B] = pow %8, %3
  %10: f32[B] = pow %8, %4
  return %5, %6, %7, %9, %10
}"), @r#"
    graph @main(%x: f32[B]) -> (f32[B], f32[B], f32[B], f32[B], f32[B]) {
      %0: f32[] = constant [0.5]
      %eps: f32[] = constant [1e-5]
      %1: f32[B] = square %x
      %2: f32[B] = reciprocal %x
      %3: f32[B] = pow %x, %0
      %4: f32[B] = add %1, %eps
      %5: f32[B] = sqrt %4
      %6: f32[B] = rsqrt %4
      return "5" = %1, "6" = %2, "7" = %3, "9" = %5, "10" = %6
    }
    "#);
}

#[test]
fn selects_with_known_conditions_are_removed() {
    assert_snapshot!(simplified("
graph @main(%c: bool[B], %x: f32[B], %s: f32[]) -> (f32[B], f32[B], f32[B]) {
  %1: bool[] = constant [false]
  %2: bool[B] = broadcast %1 {dims = [B]}
  %3: f32[B] = select %c, %x, %x
  %4: f32[B] = neg %3
  %5: f32[B] = select %2, %s, %4
  %6: f32[B] = select %2, %x, %s
  return %4, %5, %6
}"), @r#"
    graph @main(%c: bool[B], %x: f32[B], %s: f32[]) -> (f32[B], f32[B], f32[B]) {
      %0: f32[B] = neg %x
      %1: f32[B] = broadcast %s {dims = [B]}
      return "4" = %0, "5" = %0, "6" = %1
    }
    "#);
}

#[test]
fn proved_comparisons_of_sizes_become_constants() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, S]) -> (bool[2], bool[], bool[], bool[2]) where B >= 1 {
  %1: i64[2] = dims {sizes = [B, S]}
  %2: i64[2] = constant [0, -1]
  %3: bool[2] = gt %1, %2
  %4: i64[1] = dims {sizes = [B]}
  %5: i64[] = reshape %4 {dims = []}
  %6: i64[] = constant [1]
  %7: bool[] = lt %5, %6
  %8: bool[] = eq %5, %6
  %9: bool[2] = ge %1, %1
  return %3, %7, %8, %9
}"), @r#"
    graph @main(%x: f32[B, S]) -> (bool[2], bool[], bool[], bool[2]) where B >= 1 {
      %0: bool[2] = constant [true, true]
      %1: i64[1] = dims {sizes = [B]}
      %2: i64[] = reshape %1 {dims = []}
      %3: i64[] = constant [1]
      %4: bool[] = constant [false]
      %5: bool[] = eq %2, %3
      %6: bool[2] = constant [true, true]
      return "3" = %0, "7" = %4, "8" = %5, "9" = %6
    }
    "#);
}

/// As in attention masks: positions are at least 0 and below their count.
#[test]
fn proved_comparisons_of_positions_become_constants() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, S]) -> (bool[S, 1], bool[S], bool[S], bool[S], bool[S], bool[]) {
  %1: i64[S] = iota {dims = [S], axis = 0, dtype = i64}
  %2: i64[S, 1] = reshape %1 {dims = [S, 1]}
  %3: i64[] = constant [0]
  %4: i64[1] = dims {sizes = [S]}
  %5: bool[S, 1] = ge %2, %3
  %6: bool[S] = lt %1, %4
  %7: bool[S] = gt %1, %4
  %8: bool[S] = le %1, %3
  %9: bool[S] = eq %1, %4
  %10: i64[] = reshape %4 {dims = []}
  %11: bool[] = ge %10, %3
  return %5, %6, %7, %8, %9, %11
}"), @r#"
    graph @main(%x: f32[B, S]) -> (bool[S, 1], bool[S], bool[S], bool[S], bool[S], bool[]) {
      %0: i64[S] = iota {dims = [S], axis = 0, dtype = i64}
      %1: i64[] = constant [0]
      %2: bool[] = constant [true]
      %3: bool[S, 1] = broadcast %2 {dims = [S, 1]}
      %4: bool[] = constant [true]
      %5: bool[S] = broadcast %4 {dims = [S]}
      %6: bool[] = constant [false]
      %7: bool[S] = broadcast %6 {dims = [S]}
      %8: bool[S] = le %0, %1
      %9: bool[] = constant [false]
      %10: bool[S] = broadcast %9 {dims = [S]}
      %11: bool[] = constant [true]
      return "5" = %3, "6" = %5, %7, %8, "9" = %10, %11
    }
    "#);
}

#[test]
fn split_and_joined_sizes_are_simplified() {
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
fn removed_neutral_operands_leave_a_broadcast() {
    assert_snapshot!(simplified("
graph @main(%m: bool[B, 1, S], %x: f32[B, S, S]) -> f32[B, S, S] {
  %t: bool[] = constant [true]
  %1: bool[S, 1] = broadcast %t {dims = [S, 1]}
  %2: bool[B, S, S] = and %m, %1
  %3: f32[] = constant [0.0]
  %4: f32[] = constant [-inf]
  %5: f32[B, S, S] = select %2, %3, %4
  %6: f32[B, S, S] = add %x, %5
  return %6
}"), @r#"
    graph @main(%m: bool[B, 1, S], %x: f32[B, S, S]) -> f32[B, S, S] {
      %0: f32[] = constant [0.0]
      %1: f32[] = constant [-inf]
      %2: f32[B, 1, S] = select %m, %0, %1
      %3: f32[B, S, S] = add %x, %2
      return "6" = %3
    }
    "#);
}

#[test]
fn casts_through_wider_dtypes_are_removed() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B], %i: i64[B], %b: bool[B]) -> (f32[B], i64[B], f32[B]) {
  %1: f64[B] = cast %x {to = f64}
  %2: f32[B] = cast %1 {to = f32}
  %3: f32[B] = neg %2
  %4: f64[B] = cast %i {to = f64}
  %5: i64[B] = cast %4 {to = i64}
  %6: i64[B] = cast %b {to = i64}
  %7: f32[B] = cast %6 {to = f32}
  return %3, %5, %7
}"), @r#"
    graph @main(%x: f32[B], %i: i64[B], %b: bool[B]) -> (f32[B], i64[B], f32[B]) {
      %0: f32[B] = cast %x {to = f32}
      %1: f32[B] = neg %0
      %2: f64[B] = cast %i {to = f64}
      %3: i64[B] = cast %2 {to = i64}
      %4: f32[B] = cast %b {to = f32}
      return "3" = %1, "5" = %3, "7" = %4
    }
    "#);
}

#[test]
fn broadcasts_implied_by_elementwise_ops_are_removed() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, S, 4], %m: f32[B, 1, 1], %g: f32[4]) -> (f32[B, S, 4], f32[B, S, 4], f32[B, S, 4]) {
  %1: f32[B, S, 4] = broadcast %g {dims = [B, S, 4]}
  %2: f32[B, S, 4] = mul %x, %1
  %3: f32[B, S, 4] = broadcast %m {dims = [B, S, 4]}
  %4: f32[B, S, 4] = exp %3
  %5: f32[B, S, 4] = add %2, %4
  %6: f32[B, S, 4] = add %1, %3
  return %5, %6, %4
}"), @r#"
    graph @main(%x: f32[B, S, 4], %m: f32[B, 1, 1], %g: f32[4]) -> (f32[B, S, 4], f32[B, S, 4], f32[B, S, 4]) {
      %0: f32[B, S, 4] = mul %x, %g
      %1: f32[B, S, 4] = broadcast %m {dims = [B, S, 4]}
      %2: f32[B, 1, 1] = exp %m
      %3: f32[B, S, 4] = broadcast %2 {dims = [B, S, 4]}
      %4: f32[B, S, 4] = add %0, %2
      %5: f32[B, S, 4] = add %g, %1
      return "5" = %4, "6" = %5, "4" = %3
    }
    "#);
}

#[test]
fn gathers_of_constant_indices_become_slices() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, S, 4]) -> (f32[B, 4], f32[B, 4], f32[B, S, 2], f32[B, S, 2], f32[B, S, 1, 1]) {
  %1: i64[] = constant [0]
  %2: i64[] = constant [-1]
  %3: i64[2] = constant [3, 1]
  %4: i64[2] = constant [0, -1]
  %5: i32[1, 1] = constant [2]
  %6: f32[B, 4] = gather %x, %1 {axis = 1}
  %7: f32[B, 4] = gather %x, %2 {axis = 1}
  %8: f32[B, S, 2] = gather %x, %3 {axis = 2}
  %9: f32[B, S, 2] = gather %x, %4 {axis = 2}
  %10: f32[B, S, 1, 1] = gather %x, %5 {axis = 2}
  return %6, %7, %8, %9, %10
}"), @r#"
    graph @main(%x: f32[B, S, 4]) -> (f32[B, 4], f32[B, 4], f32[B, S, 2], f32[B, S, 2], f32[B, S, 1, 1]) {
      %0: i64[2] = constant [0, -1]
      %1: f32[B, 1, 4] = slice %x {starts = [0, 0, 0], sizes = [B, 1, 4], steps = [1, 1, 1]}
      %2: f32[B, 4] = reshape %1 {dims = [B, 4]}
      %3: f32[B, 1, 4] = slice %x {starts = [0, S - 1, 0], sizes = [B, 1, 4], steps = [1, 1, 1]}
      %4: f32[B, 4] = reshape %3 {dims = [B, 4]}
      %5: f32[B, S, 2] = slice %x {starts = [0, 0, 3], sizes = [B, S, 2], steps = [1, 1, -2]}
      %6: f32[B, S, 2] = gather %x, %0 {axis = 2}
      %7: f32[B, S, 1] = slice %x {starts = [0, 0, 2], sizes = [B, S, 1], steps = [1, 1, 1]}
      %8: f32[B, S, 1, 1] = reshape %7 {dims = [B, S, 1, 1]}
      return "6" = %2, "7" = %4, "8" = %5, "9" = %6, "10" = %8
    }
    "#);
}

/// As in an exported attention mask: every element of `[B, S]`, by its number.
#[test]
fn a_gather_of_the_whole_axis_becomes_a_reshape() {
    assert_snapshot!(simplified("
graph @main(%mask: i64[B, S], %x: f32[S, 4]) -> (i64[B, 1, 1, S, 1], f32[S, 4], f32[S, 4]) {
  %1: i64[B] = iota {dims = [B], axis = 0, dtype = i64}
  %2: i64[B, 1, 1, 1] = reshape %1 {dims = [B, 1, 1, 1]}
  %3: i64[1] = dims {sizes = [S]}
  %4: i64[B, 1, 1, 1] = mul %2, %3
  %5: i64[S] = iota {dims = [S], axis = 0, dtype = i64}
  %6: i64[B, 1, 1, S] = add %4, %5
  %7: i64[B*S, 1] = reshape %mask {dims = [B*S, 1]}
  %8: i64[B, 1, 1, S, 1] = gather %7, %6 {axis = 0}
  %9: f32[S, 4] = gather %x, %5 {axis = 0}
  %10: f32[S, 4] = relu %9
  %11: i64[] = constant [1]
  %12: i64[S] = sub %5, %11
  %13: f32[S, 4] = gather %x, %12 {axis = 0}
  return %8, %10, %13
}"), @r#"
    graph @main(%mask: i64[B, S], %x: f32[S, 4]) -> (i64[B, 1, 1, S, 1], f32[S, 4], f32[S, 4]) {
      %0: i64[S] = iota {dims = [S], axis = 0, dtype = i64}
      %1: i64[B*S, 1] = reshape %mask {dims = [B*S, 1]}
      %2: i64[B, 1, 1, S, 1] = reshape %1 {dims = [B, 1, 1, S, 1]}
      %3: f32[S, 4] = reshape %x {dims = [S, 4]}
      %4: f32[S, 4] = relu %3
      %5: i64[] = constant [1]
      %6: i64[S] = sub %0, %5
      %7: f32[S, 4] = gather %x, %6 {axis = 0}
      return "8" = %2, "10" = %4, "13" = %7
    }
    "#);
}

/// The mask's last size is one of two that broadcast to the result's; dropping the broadcast of another axis does not
/// affect that.
#[test]
fn unproved_size_checks_are_kept() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, S, T], %m: f32[B, 1, S]) -> f32[B, S, bcast(S, T)] {
  %1: f32[B, S, S] = broadcast %m {dims = [B, S, S]}
  %2: f32[B, S, bcast(S, T)] = add %x, %1
  return %2
}"), @r#"
    graph @main(%x: f32[B, S, T], %m: f32[B, 1, S]) -> f32[B, S, bcast(S, T)] {
      %0: f32[B, S, bcast(S, T)] = add %x, %m
      return "2" = %0
    }
    "#);
}

/// A float sum of -0.0 alone is 0.0.
#[test]
fn reductions_over_one_element() {
    assert_snapshot!(simplified("
graph @main(%x: f32[B, 1], %i: i64[B, 1]) -> (f32[B], i64[B], f32[B, 1], f32[B], i64[B, 1]) {
  %1: f32[B] = reduce %x {function = max, axes = [1]}
  %2: i64[B] = reduce %i {function = sum, axes = [1]}
  %3: f32[B, 1] = reduce %x {function = product, axes = [1], keep_dims}
  %4: f32[B] = reduce %x {function = sum, axes = [1]}
  %5: i64[B, 1] = reduce %i {function = min, axes = []}
  return %1, %2, %3, %4, %5
}"), @r#"
    graph @main(%x: f32[B, 1], %i: i64[B, 1]) -> (f32[B], i64[B], f32[B, 1], f32[B], i64[B, 1]) {
      %0: f32[B] = reshape %x {dims = [B]}
      %1: i64[B] = reshape %i {dims = [B]}
      %2: f32[B, 1] = reshape %x {dims = [B, 1]}
      %3: f32[B] = reduce %x {function = sum, axes = [1]}
      %4: i64[B, 1] = reshape %i {dims = [B, 1]}
      return "1" = %0, "2" = %1, "3" = %2, "4" = %3, "5" = %4
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
