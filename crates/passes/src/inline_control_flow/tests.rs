//! Branches and loops with a known course.

use super::inline_control_flow;
use crate::eliminate_dead_ops;
use crate::testing::{after, is_unchanged};
use insta::assert_snapshot;

fn inlined(source: &str) -> String {
    after(&[inline_control_flow, eliminate_dead_ops], source)
}

#[test]
fn a_known_condition_inlines_its_branch() {
    assert_snapshot!(inlined("
graph @main(%x: f32[B], %y: f32[B]) -> f32[B] {
  %no: bool[] = constant [false]
  %1: f32[B] = if %no, %x, %y
    region(%a: f32[B], %b: f32[B]) {
      %2: f32[B] = add %a, %b
      yield %2
    }
    region(%c: f32[B], %d: f32[B]) {
      %3: f32[B] = sub %c, %d
      yield %3
    }
  return %1
}"), @r#"
    graph @main(%x: f32[B], %y: f32[B]) -> f32[B] {
      %0: f32[B] = sub %x, %y
      return "1" = %0
    }
    "#);
}

/// `n` is the size of whichever branch ran; now it is known to be `2*B`.
#[test]
fn sizes_that_a_branch_decided_become_its_sizes() {
    assert_snapshot!(inlined("
graph @main(%x: f32[B]) -> f32[n + 1] {
  %yes: bool[] = constant [true]
  %1: f32[n] = if %yes, %x -> (n)
    region(%a: f32[B]) {
      %2: f32[2*B] = concat %a, %a {axis = 0}
      yield %2
    }
    region(%b: f32[B]) {
      yield %b
    }
  %3: f32[1] = constant [1.0]
  %4: f32[n + 1] = concat %1, %3 {axis = 0}
  return %4
}"), @r#"
    graph @main(%x: f32[B]) -> f32[2*B + 1] {
      %0: f32[2*B] = concat %x, %x {axis = 0}
      %1: f32[1] = constant [1.0]
      %2: f32[2*B + 1] = concat %0, %1 {axis = 0}
      return "4" = %2
    }
    "#);
}

#[test]
fn loops_of_zero_and_one_iteration_are_inlined() {
    assert_snapshot!(inlined("
graph @main(%x: f32[B], %m: i64[]) -> (f32[B], f32[B], f32[B]) {
  %zero: i64[] = constant [0]
  %one: i64[] = constant [1]
  %yes: bool[] = constant [true]
  %no: bool[] = constant [false]
  %1: f32[B] = loop %zero, %yes, %x {carried = 1}
    region(%i: i64[], %p: f32[B]) {
      %stay: bool[] = constant [true]
      %2: f32[B] = neg %p
      yield %stay, %2
    }
  %3: f32[B] = loop %one, %yes, %x {carried = 1}
    region(%j: i64[], %q: f32[B]) {
      %stay2: bool[] = constant [true]
      %4: f32[] = cast %j {to = f32}
      %5: f32[B] = add %q, %4
      yield %stay2, %5
    }
  %6: f32[B] = loop %m, %no, %x {carried = 1}
    region(%k: i64[], %r: f32[B]) {
      %stay3: bool[] = constant [true]
      %7: f32[B] = neg %r
      yield %stay3, %7
    }
  return %1, %3, %6
}"), @r#"
    graph @main(%x: f32[B], %m: i64[]) -> (f32[B], f32[B], f32[B]) {
      %j: i64[] = constant [0]
      %0: f32[] = cast %j {to = f32}
      %1: f32[B] = add %x, %0
      return "1" = %x, "3" = %1, "6" = %x
    }
    "#);
}

#[test]
fn unknown_control_flow_is_kept() {
    assert!(is_unchanged(
        inline_control_flow,
        "
graph @main(%x: f32[B], %c: bool[], %m: i64[]) -> (f32[B], f32[B], f32[T, B]) {
  %two: i64[] = constant [2]
  %yes: bool[] = constant [true]
  %1: f32[B] = if %c, %x
    region(%a: f32[B]) {
      %2: f32[B] = neg %a
      yield %2
    }
    region(%b: f32[B]) {
      yield %b
    }
  %3: f32[B], %4: f32[T, B] = loop %two, %yes, %1 {carried = 1} -> (T)
    region(%i: i64[], %p: f32[B]) {
      %stay: bool[] = constant [true]
      %5: f32[B] = neg %p
      yield %stay, %5, %p
    }
  return %1, %3, %4
}"
    ));
}
