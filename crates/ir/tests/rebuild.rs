//! Copying graphs: nothing is lost, and a pass can intervene before each op.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use kiln_ir::{BlobMap, Graph, NewOp, Op, Rebuild, Type, Visit, text, verify};
use kiln_scalar::Function;
use std::convert::Infallible;

const SOURCE: &str = "
graph @g(%c: bool[], %x: f32[N]) -> (f32[N], f32[N]) where N >= 2 {
  %a: f32[N] = relu %x from \"first\"
  %y: f32[N] = if %c, %a
    region(%p: f32[N]) {
      %q: f32[N] = relu %p
      yield %q
    }
    region(%r: f32[N]) {
      yield %r
    }
  %b: f32[N] = neg %y
  return \"one\" = %b, %a
}";

fn source() -> Graph {
    text::read(SOURCE, &BlobMap::new()).unwrap()
}

#[test]
fn a_copy_prints_as_the_original() {
    let mut graph = source();
    graph.metadata_mut().insert("key".into(), "value".into());
    let copy = Rebuild::new(&graph)
        .run::<Infallible>(&mut |_, _, _| Ok(Visit::Copy))
        .unwrap();
    assert!(verify(&copy).is_ok());
    assert_eq!(text::print(&copy), text::print(&graph));
}

#[test]
fn an_op_can_be_dropped_and_its_result_mapped() {
    let graph = source();
    let rewritten = Rebuild::new(&graph)
        .run::<Infallible>(&mut |rebuild, _, op| {
            let data = rebuild.old().op(op);
            if data.op.mnemonic() != "relu" {
                return Ok(Visit::Copy);
            }
            let operand = rebuild.value(data.operands[0]);
            rebuild.map(data.results[0], operand);
            Ok(Visit::Done)
        })
        .unwrap();
    assert!(verify(&rewritten).is_ok());
    // Regions are visited too, and the outputs keep their names.
    insta::assert_snapshot!(text::print(&rewritten), @r#"
    graph @g(%c: bool[], %x: f32[N]) -> (f32[N], f32[N]) where N >= 2 {
      %y: f32[N] = if %c, %x
        region(%p: f32[N]) {
          yield %p
        }
        region(%r: f32[N]) {
          yield %r
        }
      %b: f32[N] = neg %y
      return "one" = %b, "a" = %x
    }
    "#);
}

#[test]
fn an_op_can_be_replaced_by_others() {
    let graph = source();
    let rewritten = Rebuild::new(&graph)
        .run::<Infallible>(&mut |rebuild, region, op| {
            let data = rebuild.old().op(op);
            if data.op.mnemonic() != "neg" {
                return Ok(Visit::Copy);
            }
            let mut value = rebuild.value(data.operands[0]);
            let ty: Type = rebuild.old().ty(data.results[0]).clone();
            for name in ["abs", "neg"] {
                let new = Op::map(Function::by_name(name).unwrap());
                let id = rebuild.append(region, NewOp::new(new, [value], [ty.clone()]));
                value = rebuild.new_graph().op(id).results[0];
            }
            rebuild.map(data.results[0], value);
            Ok(Visit::Done)
        })
        .unwrap();
    assert!(verify(&rewritten).is_ok());
    insta::assert_snapshot!(text::print(&rewritten), @r#"
    graph @g(%c: bool[], %x: f32[N]) -> (f32[N], f32[N]) where N >= 2 {
      %a: f32[N] = relu %x from "first"
      %y: f32[N] = if %c, %a
        region(%p: f32[N]) {
          %q: f32[N] = relu %p
          yield %q
        }
        region(%r: f32[N]) {
          yield %r
        }
      %0: f32[N] = abs %y
      %b: f32[N] = neg %0
      return "one" = %b, %a
    }
    "#);
}

#[test]
fn rebuild_returns_the_error_of_its_pass() {
    let graph = source();
    let stopped = Rebuild::new(&graph).run(&mut |_, _, op| Err(op.to_string()));
    assert_eq!(stopped.map(|_| ()), Err("op0".to_owned()));
}

#[test]
fn uses_are_counted_in_ops_regions_and_outputs() {
    let graph = source();
    let counts = graph.use_counts();
    let input = |name: &str| {
        *graph
            .inputs()
            .iter()
            .find(|&&v| graph.input_name(v) == name)
            .unwrap()
    };
    assert_eq!(counts[input("c")], 1);
    assert_eq!(counts[input("x")], 1);
    let relu = graph
        .ops()
        .find(|(_, data)| data.origin.is_some())
        .unwrap()
        .1;
    assert_eq!(counts[relu.results[0]], 2, "the branch and the output");
}
