//! Constants that are moved next to their readers.

use super::sink_constants;
use crate::testing::{after, is_unchanged};
use crate::{eliminate_dead_ops, fold_constants};
use insta::assert_snapshot;

#[test]
fn captured_constants_fold_inside() {
    assert_snapshot!(after(&[sink_constants, fold_constants, eliminate_dead_ops], "
graph @main(%n: i64[], %x: f32[B]) -> f32[B] {
  %go: bool[] = constant [true]
  %two: f32[] = constant [2.0]
  %1: f32[B] = loop %n, %go, %x, %two {carried = 1}
    region(%i: i64[], %p: f32[B], %c: f32[]) {
      %stay: bool[] = constant [true]
      %2: f32[] = sqrt %c
      %3: f32[B] = mul %p, %2
      yield %stay, %3
    }
  return %1
}"), @r#"
    graph @main(%n: i64[], %x: f32[B]) -> f32[B] {
      %go: bool[] = constant [true]
      %0: f32[B] = loop %n, %go, %x {carried = 1}
        region(%i: i64[], %p: f32[B]) {
          %stay: bool[] = constant [true]
          %1: f32[] = constant [1.4142135]
          %2: f32[B] = mul %p, %1
          yield %stay, %2
        }
      return "1" = %0
    }
    "#);
}

#[test]
fn carried_constants_and_other_captures_are_kept() {
    assert!(is_unchanged(
        sink_constants,
        "
graph @main(%n: i64[], %y: f32[]) -> f32[] {
  %go: bool[] = constant [true]
  %two: f32[] = constant [2.0]
  %1: f32[] = loop %n, %go, %two, %y {carried = 1}
    region(%i: i64[], %p: f32[], %c: f32[]) {
      %stay: bool[] = constant [true]
      %3: f32[] = mul %p, %c
      yield %stay, %3
    }
  return %1
}"
    ));
}
