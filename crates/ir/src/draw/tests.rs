//! Drawings of small graphs, and of hostile ones.

use super::*;
use crate::constant::{BlobMap, Constant};
use crate::graph::{Graph, NewOp};
use crate::op::Op;
use crate::text;
use crate::ty::Type;
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor};

const SMALL: &str = "
graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] {
  %0: f32[] = constant [0.5]
  %1: f32[B, N] = matmul %x, %w {out = f32} from \"layer \\\"1\\\"\"
  %2: f32[B, N] = mul %1, %0
  %3: f32[B, N] = relu %2
  return %3
}";

fn read(text: &str) -> Graph {
    text::read(text, &BlobMap::new()).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

#[test]
fn dot_of_a_small_graph() {
    insta::assert_snapshot!(dot(&read(SMALL)));
}

#[test]
fn svg_of_a_small_graph() {
    insta::assert_snapshot!(svg(&read(SMALL)));
}

#[test]
fn regions_are_drawn_inside_their_op() {
    let text = "
graph @choose(%c: bool[], %x: f32[N]) -> f32[N] {
  %0: f32[N] = if %c, %x
    region(%1: f32[N]) {
      %2: f32[N] = neg %1
      yield %2
    }
    region(%3: f32[N]) {
      yield %3
    }
  return %0
}";
    let graph = read(text);
    let dot = dot(&graph);
    assert!(
        dot.contains("subgraph cluster_1 {\n    label=\"else\""),
        "{dot}"
    );
    let svg = svg(&graph);
    assert!(
        svg.contains(">then</text>") && svg.contains(">yield</text>"),
        "{svg}"
    );
    assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
}

/// A chain with a second reader for every value: long edges everywhere.
fn chain(length: usize) -> Graph {
    let mut graph = Graph::new("chain");
    let n = graph.dims_mut().symbol("N").unwrap();
    let ty = Type::tensor(DType::F32, [n]);
    let first = graph.add_input("x", ty.clone());
    let (body, add) = (graph.body(), Function::by_name("add").unwrap());
    let mut last = first;
    for _ in 0..length {
        let op = graph.append(body, NewOp::new(Op::map(add), [last, first], [ty.clone()]));
        last = graph.op(op).results[0];
    }
    graph.set_outputs([("y", last)]);
    graph
}

#[test]
fn a_graph_too_large_to_see_is_cut_with_a_note() {
    let drawn = svg(&chain(50_000));
    assert!(drawn.contains("… and 48001 more"), "the note is missing");
    assert!(drawn.len() < 4_000_000, "{}", drawn.len());
    assert!(dot(&chain(50_000)).contains("… and 48001 more"));
}

#[test]
fn names_from_outside_cannot_break_out() {
    let mut graph = Graph::new("</text>\u{1b}[2J\"]; evil");
    let x = graph.add_input("<script>\u{0}", Type::tensor(DType::F32, []));
    graph.set_outputs([("a&b\\", x)]);
    let svg = svg(&graph);
    assert!(
        svg.contains("&lt;script&gt;\\u{0}") && svg.contains("a&amp;b\\"),
        "{svg}"
    );
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'));
    let dot = dot(&graph);
    assert!(
        dot.starts_with("digraph \"</text>\\\\u{1b}[2J\\\"]; evil\" {"),
        "{dot}"
    );
    assert!(dot.contains("a&b\\\\"), "{dot}");
}

#[test]
fn a_constant_that_is_an_output_has_a_box() {
    let mut graph = Graph::new("constant");
    let constant = Constant::new(Tensor::scalar(7_i64)).unwrap();
    let (body, ty) = (graph.body(), Type::tensor(DType::I64, []));
    let op = graph.append(body, NewOp::new(Op::Constant(constant), [], [ty]));
    let value = graph.op(op).results[0];
    graph.set_outputs([("y", value)]);
    assert!(dot(&graph).contains("constant\\n= 7"));
}

#[test]
fn boxes_of_a_layer_do_not_overlap() {
    let scene = scene::scene(&read(SMALL));
    let picture = layout::place(&scene);
    for (index, a) in picture.boxes.iter().enumerate() {
        for b in &picture.boxes[index + 1..] {
            let apart_x = a.x + a.width <= b.x || b.x + b.width <= a.x;
            let apart_y = a.y + a.height <= b.y || b.y + b.height <= a.y;
            assert!(apart_x || apart_y, "{a:?} {b:?}");
        }
    }
}
