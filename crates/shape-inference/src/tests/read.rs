//! Reading text with omitted types.

use crate::read_graph;
use insta::assert_snapshot;
use kiln_ir::BlobMap;
use kiln_ir::text::print;

fn read(text: &str) -> String {
    match read_graph(text, &BlobMap::new()) {
        Ok(graph) => print(&graph),
        Err(diagnostics) => diagnostics.to_string(),
    }
}

#[test]
fn omitted_types_are_filled_in() {
    let text =
        "graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] where B >= 1, N % 8 == 0 {
  %h = matmul %x, %w {out = f32}
  %y: f32[B, N] = relu %h
  return %y
}
";
    let full = read(text);
    assert_snapshot!(full, @"
    graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] where B >= 1, N % 8 == 0 {
      %h: f32[B, N] = matmul %x, %w
      %y: f32[B, N] = relu %h
      return %y
    }
    ");
    assert_eq!(read(&full), full);
}

#[test]
fn stated_types_are_checked_by_proof() {
    let stated = |ty: &str| {
        read(&format!(
            "graph @t(%x: f32[A], %y: f32[B]) -> () {{\n  %z: {ty} = concat %x, %y {{axis = 0}}\n  return\n}}"
        ))
    };
    assert_snapshot!(stated("f32[B + A]"), @"
    graph @t(%x: f32[A], %y: f32[B]) -> () {
      %z: f32[A + B] = concat %x, %y {axis = 0}
      return
    }
    ");
    assert_snapshot!(stated("f32[A]"), @"[E0112] concat (%2): type of result 0: expected f32[A + B], found f32[A] (not proved equal; state the equality as a fact) [E0336]");
    assert_snapshot!(stated("f32[-1]"), @"[E0112] concat (%2): type of result 0: expected f32[A + B], found f32[-1] [E0336]");
    assert_snapshot!(stated("f64[A + B]"), @"[E0112] concat (%2): type of result 0: expected f32[A + B], found f64[A + B] [E0336]");
    assert_snapshot!(read("graph @t(%x: f32[A]) -> () {\n  %z: f32[A], %w = relu %x\n  return\n}"), @"[E0114] expected 1 results, found 2");
    assert_snapshot!(read("graph @t(%x: f32[A]) -> () {\n  %v: f32[3], %i = top_k %x {k = 2, axis = 0, extremum = max}\n  return\n}"), @"[E0112] top_k (%1): type of result 0: expected f32[2], found f32[3] [E0336]");
}

#[test]
fn facts_of_the_text_prove_its_types() {
    assert_snapshot!(
        read("graph @t(%x: f32[A, K], %y: f32[L, B]) -> f32[A, B] where K == L {\n  %z = matmul %x, %y {out = f32}\n  return %z\n}"),
        @"
    graph @t(%x: f32[A, K], %y: f32[L, B]) -> f32[A, B] where K == L {
      %z: f32[A, B] = matmul %x, %y
      return %z
    }
    "
    );
}

#[test]
fn facts_that_reading_finds_are_printed_once() {
    let text = "graph @t(%x: f32[A, K], %y: f32[L, B]) -> f32[A, B] {\n  %z = matmul %x, %y {out = f32}\n  return %z\n}";
    let once = read(text);
    assert_snapshot!(once, @r#"
    graph @t(%x: f32[A, K], %y: f32[L, B]) -> f32[A, B]
      requires K == L by "matmul (%2): inner sizes"
    {
      %z: f32[A, B] = matmul %x, %y
      return %z
    }
    "#);
    assert_eq!(read(&once), once);
}

#[test]
fn regions_use_known_values_of_their_captures() {
    let text = "graph @t(%x: f32[B]) -> f32[3, B] {
  %n: i64[] = constant [3]
  %yes: bool[] = constant [true]
  %y = loop %n, %yes, %x, %n, %yes {carried = 0}
    region(%i: i64[], %x: f32[B], %n: i64[], %yes: bool[]) {
      %s: f32[3, B] = loop %n, %yes, %x {carried = 0}
        region(%i: i64[], %x: f32[B]) {
          %go: bool[] = constant [true]
          yield %go, %x
        }
      %m = reduce %s {function = max, axes = [0]}
      %go: bool[] = constant [true]
      yield %go, %m
    }
  return %y
}
";
    let full = read(text);
    assert_snapshot!(full, @"
    graph @t(%x: f32[B]) -> f32[3, B] {
      %n: i64[] = constant [3]
      %yes: bool[] = constant [true]
      %y: f32[3, B] = loop %n, %yes, %x, %n, %yes {carried = 0}
        region(%i: i64[], %0: f32[B], %1: i64[], %2: bool[]) {
          %s: f32[3, B] = loop %1, %2, %0 {carried = 0}
            region(%3: i64[], %4: f32[B]) {
              %go: bool[] = constant [true]
              yield %go, %4
            }
          %m: f32[B] = reduce %s {function = max, axes = [0]}
          %5: bool[] = constant [true]
          yield %5, %m
        }
      return %y
    }
    ");
    assert_eq!(read(&full), full);
    let wrong = text.replace("%s: f32[3, B]", "%s: f32[4, B]");
    assert_snapshot!(read(&wrong), @"[E0336] loop (%10): type of result 0: expected f32[3, B], found f32[4, B]");
}
