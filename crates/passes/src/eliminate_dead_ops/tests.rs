//! Which parts are removed, and which must be kept.

use super::eliminate_dead_ops;
use crate::PassContext;
use crate::testing::{after, graph, is_unchanged};
use insta::assert_snapshot;

fn trimmed(source: &str) -> String {
    after(&[eliminate_dead_ops], source)
}

/// `%q` only feeds itself; `%r` is not a result of the graph, but determines `%p`.
#[test]
fn carried_values_that_only_feed_themselves_are_removed() {
    assert_snapshot!(trimmed("
graph @main(%n: i64[], %x: f32[B], %y: f32[C]) -> f32[B] {
  %go: bool[] = constant [true]
  %one: i64[] = constant [1]
  %1: f32[B], %2: f32[C], %3: i64[], %4: f32[?, C] = loop %n, %go, %x, %y, %one, %y {carried = 3} -> (T)
    region(%i: i64[], %p: f32[B], %q: f32[C], %r: i64[], %k: f32[C]) {
      %stay: bool[] = constant [true]
      %5: f32[] = cast %r {to = f32}
      %6: f32[B] = mul %p, %5
      %7: f32[C] = exp %q
      %8: i64[] = add %r, %i
      yield %stay, %6, %7, %8, %k
    }
  return %1
}".replace("f32[?, C]", "f32[T, C]").as_str()), @r#"
    graph @main(%n: i64[], %x: f32[B], %y: f32[C]) -> f32[B] {
      %go: bool[] = constant [true]
      %one: i64[] = constant [1]
      %0: f32[B], %1: i64[] = loop %n, %go, %x, %one {carried = 2}
        region(%i: i64[], %p: f32[B], %r: i64[]) {
          %stay: bool[] = constant [true]
          %2: f32[] = cast %r {to = f32}
          %3: f32[B] = mul %p, %2
          %4: i64[] = add %r, %i
          yield %stay, %3, %4
        }
      return "1" = %0
    }
    "#);
}

/// A proof may depend on `m == B`, which the `bind` checks.
#[test]
fn a_bind_that_a_fact_relates_to_other_sizes_stays() {
    assert!(is_unchanged(
        eliminate_dead_ops,
        r#"
graph @main(%n: i64[1], %x: f32[B]) -> f32[B]
  requires B == m by "reshape"
{
  bind %n -> (m)
  %2: f32[B] = neg %x
  return %2
}"#
    ));
}

#[test]
fn custom_ops_in_regions_are_kept() {
    let source = r#"
graph @main(%c: bool[], %x: f32[B]) -> f32[B] {
  %1: f32[B] = if %c, %x
    region(%a: f32[B]) {
      %2: f32[B] = custom %a {name = "log", arguments = ""}
      yield %a
    }
    region(%b: f32[B]) {
      yield %b
    }
  return %x
}"#;
    let graph = kiln_ir::text::read(source, &kiln_ir::BlobMap::new()).unwrap();
    assert!(
        !eliminate_dead_ops(graph, &mut PassContext::new())
            .unwrap()
            .graph
            .ops()
            .all(|(_, data)| data.regions.is_empty())
    );
}

#[test]
fn dead_op_removal_is_all_or_nothing_under_the_rewrite_limit() {
    let source = "
graph @main(%x: f32[B]) -> f32[B] {
  %1: f32[B] = neg %x
  %2: f32[B] = exp %1
  return %x
}";
    let mut ctx = PassContext::new().with_rewrite_limit(Some(1));
    assert!(
        !eliminate_dead_ops(graph(source), &mut ctx)
            .unwrap()
            .is_changed()
    );
    assert!(!ctx.may_rewrite());
    let mut ctx = PassContext::new().with_rewrite_limit(Some(2));
    assert_eq!(
        eliminate_dead_ops(graph(source), &mut ctx)
            .unwrap()
            .rewrites,
        2
    );
}
