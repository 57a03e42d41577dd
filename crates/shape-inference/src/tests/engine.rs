//! The registry: rules added, replaced, removed; custom ops.

use crate::{GraphBuilder, InferErrorKind, Inferred, ShapeInferenceEngine};
use insta::assert_snapshot;
use kiln_ir::{Op, Type};
use kiln_tensor::DType;

fn custom(name: &str) -> Op {
    Op::Custom {
        name: name.to_owned(),
        arguments: String::new(),
    }
}

/// Interleaves two vectors: an op that no core rule knows.
fn with_interleave() -> ShapeInferenceEngine {
    let mut engine = ShapeInferenceEngine::new();
    engine.register_custom("interleave", |ctx, node| {
        node.expect_operands(2)?;
        ctx.same_dtype(node, 0, 1)?;
        let (left, right) = (ctx.tensor(node, 0)?, ctx.tensor(node, 1)?);
        let (&[a], &[b]) = (left.dims.as_slice(), right.dims.as_slice()) else {
            return Err(node.attribute_error("operands", "vectors", left.rank()));
        };
        ctx.require_equal(node, "lengths", (0, a), (1, b))?;
        let length = node.size(ctx.dims_mut().add(a, b))?;
        Ok(Inferred::of(Type::tensor(left.dtype, [length])))
    });
    engine
}

#[test]
fn custom_ops_are_inferred_by_the_rule_of_their_name() {
    let mut builder = GraphBuilder::with_engine("t", with_interleave());
    let n = builder.symbol("n").unwrap();
    let m = builder.symbol("m").unwrap();
    let x = builder.input("x", DType::F32, &[n]);
    let y = builder.input("y", DType::F32, &[m]);
    let z = builder.op1(custom("interleave"), &[x, y]).unwrap();
    assert_snapshot!(builder.describe(z), @"%2: f32[m + n]");
    let fact = &builder.dims().contract_facts()[0];
    assert_snapshot!(fact.origin.to_string(), @r#"required by custom "interleave" (%2): lengths"#);
    let graph = builder.finish(&[("z", z)]).unwrap();
    crate::check_types_with(&graph, &with_interleave()).unwrap();
    let errors = crate::check_types(&graph).unwrap_err();
    assert_snapshot!(errors.to_string(), @r#"[E0337] custom "interleave" (%2): no custom operation is registered as "interleave"; register a rule for it with the engine"#);
}

#[test]
fn errors_of_custom_rules_name_the_operands() {
    let mut builder = GraphBuilder::with_engine("t", with_interleave());
    let (three, four) = (builder.size(3), builder.size(4));
    let x = builder.input("x", DType::F32, &[three]);
    let y = builder.input("y", DType::F32, &[four]);
    builder.origin("model/Interleave\u{7}");
    let error = builder.op1(custom("interleave"), &[x, y]).unwrap_err();
    assert_snapshot!(error.to_string(), @r#"custom "interleave" (model/Interleave\u{7}): lengths of %x: f32[3] and %y: f32[4] differ: expected 3, found 4"#);
    let error = builder.op(custom("other"), &[x]).unwrap_err();
    assert_snapshot!(error.to_string(), @r#"custom "other" (model/Interleave\u{7}): no custom operation is registered as "other"; register a rule for it with the engine"#);
    assert!(matches!(*error.kind, InferErrorKind::UnknownCustom { .. }));
}

#[test]
fn rules_are_replaced_and_removed_by_name() {
    let mut engine = with_interleave();
    let count = engine.names().count();
    assert_eq!(engine.names().next(), Some("interleave"));
    engine.register_custom("interleave", |_, _| Ok(Inferred::default()));
    assert_eq!(engine.names().count(), count);
    assert!(engine.unregister("interleave") && !engine.unregister("interleave"));
    assert!(engine.rule_for(&custom("interleave")).is_none());
    assert!(engine.unregister("elementwise"));
    let mut builder = GraphBuilder::with_engine("t", engine);
    let x = builder.input("x", DType::F32, &[]);
    assert_snapshot!(builder.relu(x).unwrap_err().to_string(), @"relu (%1): no registered rule infers it; register one with the engine");
    assert_eq!(ShapeInferenceEngine::empty().names().count(), 0);
    assert_snapshot!(format!("{:?}", ShapeInferenceEngine::default()), @r#"["elementwise", "movement", "contraction", "sources", "indexing", "reduction", "window", "resize", "data_dependent", "control"]"#);
}
