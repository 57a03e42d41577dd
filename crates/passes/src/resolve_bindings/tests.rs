//! Bindings of known sizes.

use super::resolve_bindings;
use crate::eliminate_dead_ops;
use crate::testing::{after, is_unchanged};
use insta::assert_snapshot;

#[test]
fn symbols_bound_to_sizes_become_those_sizes() {
    assert_snapshot!(after(&[resolve_bindings, eliminate_dead_ops], r#"
graph @main(%x: f32[B, S]) -> (i64[n], i64[k, m]) where m >= 2
  requires n + m >= 5 by "the caller"
  plan n == B by "add"
  likely B == 8
{
  %1: i64[1] = dims {sizes = [B + 1]}
  %2: i64[] = reshape %1 {dims = []}
  bind %2 -> (n)
  %3: i64[2] = dims {sizes = [n + 2, 4]}
  bind %3 -> (m, k)
  %4: i64[n] = iota {dims = [n], axis = 0, dtype = i64}
  %5: i64[k, m] = iota {dims = [k, m], axis = 1, dtype = i64}
  return %4, %5
}"#), @r#"
    graph @main(%x: f32[B, S]) -> (i64[B + 1], i64[4, B + 3])
      requires 2*B + 4 >= 5 by "the caller"
      plan B + 1 == B by "add"
      likely B == 8
    {
      %0: i64[B + 1] = iota {dims = [B + 1], axis = 0, dtype = i64}
      %1: i64[4, B + 3] = iota {dims = [4, B + 3], axis = 1, dtype = i64}
      return "4" = %0, "5" = %1
    }
    "#);
}

#[test]
fn a_bind_that_may_fail_is_kept() {
    assert!(is_unchanged(
        resolve_bindings,
        "
graph @main(%x: f32[B], %n: i64[1]) -> (i64[n], i64[m], i64[k]) where n >= 1, m % 8 == 0 {
  %1: i64[1] = dims {sizes = [B]}
  bind %1 -> (n)
  %2: i64[1] = constant [12]
  bind %2 -> (m)
  bind %n -> (k)
  %4: i64[n] = iota {dims = [n], axis = 0, dtype = i64}
  %5: i64[m] = iota {dims = [m], axis = 0, dtype = i64}
  %6: i64[k] = iota {dims = [k], axis = 0, dtype = i64}
  return %4, %5, %6
}"
    ));
}

/// With `k` known to be 2, the result's size is -1 in every call, which is reported at run time.
#[test]
fn impossible_sizes_are_not_substituted() {
    assert!(is_unchanged(
        resolve_bindings,
        "
graph @main(%x: f32[1, 1, 4]) -> f32[1, 1, 3 - k - k] {
  %1: i64[1] = constant [2]
  bind %1 -> (k)
  %2: f32[1, 1, 2] = constant [1.0, 1.0]
  %3: f32[1, 1, 3 - k - k] = conv %x, %2 {strides = [1], dilations = [1], low = [0 - k], high = [0 - k], groups = 1, out = f32}
  return %3
}"
    ));
}
