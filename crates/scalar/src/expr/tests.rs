//! Building, typing, printing and reading back expressions.

use proptest::prelude::*;

use super::*;
use crate::Function;

fn code<T>(result: Result<T, ScalarError>) -> &'static str {
    result.map(|_| ()).unwrap_err().code()
}

#[test]
fn equal_nodes_are_merged_and_shared_steps_print_once() {
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let e = b.exp(x);
    assert_eq!(b.exp(x), e);
    let one = b.literal(1.0, x);
    let sum = b.add(e, one);
    let quotient = b.div(e, sum);
    let expr = b.finish(quotient).unwrap();
    assert_eq!(expr.to_string(), "t0 = exp(x0); div(t0, add(t0, 1.0))");
    assert_eq!(expr.nodes().len(), 5);
}

#[test]
fn literals_name_their_model_where_the_dtype_is_not_plain() {
    let mut b = ExprBuilder::new(3);
    let (c, x) = (b.input(0), b.input(1));
    let (zero, one) = (b.literal(0.0, x), b.literal(f64::INFINITY, x));
    let chosen = b.select(c, zero, one);
    let half = b.literal(0.5, chosen);
    let ints = b.cast(DType::I32, half);
    let typed = b.constant(3i32);
    let sum = b.add(ints, typed);
    assert_eq!(
        b.finish(sum).unwrap().to_string(),
        "add(cast_i32(0.5 like select(x0, 0.0 like x1, inf like x1)), i32(3))"
    );
}

#[test]
fn a_long_chain_is_printed_typed_and_copied_without_recursion() {
    let mut b = ExprBuilder::new(1);
    let mut x = b.input(0);
    for _ in 0..20_000 {
        let doubled = b.add(x, x);
        x = b.neg(doubled);
    }
    let expr = b.finish(x).unwrap();
    assert_eq!(expr.result_type(&[DType::F16]).unwrap(), DType::F16);
    assert!(expr.to_string().len() < 1_000_000);
    let mut outer = ExprBuilder::new(1);
    let y = outer.input(0);
    let copy = outer.inline(&expr, &[y]);
    assert_eq!(outer.finish(copy).unwrap(), expr);
}

#[test]
fn operand_dtypes_are_not_promoted() {
    let mut b = ExprBuilder::new(2);
    let (x, y) = (b.input(0), b.input(1));
    let sum = b.add(x, y);
    let half = b.literal(0.5, sum);
    let product = b.mul(sum, half);
    let expr = b.finish(product).unwrap();
    assert_eq!(
        expr.result_type(&[DType::F64, DType::F64]).unwrap(),
        DType::F64
    );
    assert_eq!(
        expr.result_type(&[DType::F32, DType::F64])
            .unwrap_err()
            .to_string(),
        "`add` expects two numbers of one dtype, found f32, f64: convert with `cast`"
    );
    assert_eq!(code(expr.result_type(&[DType::Bool, DType::Bool])), "E0281");
    assert_eq!(code(expr.result_type(&[DType::I32, DType::I32])), "E0282");
    assert_eq!(code(expr.result_type(&[DType::F32])), "E0283");
}

#[test]
fn the_first_mistake_is_reported_at_the_end() {
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let wrong = b.apply(ScalarOp::Add, &[x]);
    let worse = b.input(7);
    let sum = b.add(wrong, worse);
    assert_eq!(
        b.finish(sum).unwrap_err().to_string(),
        "`add` expects 2 operands, found 1"
    );
    let mut b = ExprBuilder::new(0);
    let stranger = NodeId(5);
    b.neg(stranger);
    assert_eq!(code(b.finish(NodeId(0))), "E0285");
    assert_eq!(code(ExprBuilder::new(1).finish(NodeId(0))), "E0285");
    let mut b = ExprBuilder::new(1);
    b.input(1);
    assert_eq!(code(b.finish(NodeId(0))), "E0286");
    let mut b = ExprBuilder::new(2);
    let x = b.input(0);
    let relu = Function::by_name("relu").unwrap().expression(&[]).unwrap();
    b.inline(&relu, &[x, x]);
    assert_eq!(code(b.finish(x)), "E0283");
}

#[test]
fn deserialized_expressions_are_checked() {
    for name in ["gelu", "clip", "mish"] {
        let expr = Function::by_name(name).unwrap().expression(&[]).unwrap();
        let text = serde_json::to_string(&expr).unwrap();
        assert_eq!(serde_json::from_str::<Expr>(&text).unwrap(), expr);
    }
    let read = |text: &str| serde_json::from_str::<Expr>(text).unwrap_err().to_string();
    assert!(read(r#"{"n_inputs":1,"nodes":[],"result":0}"#).contains("node 0"));
    let forward = r#"{"n_inputs":1,"nodes":[{"apply":{"op":"neg","operands":[0]}}],"result":0}"#;
    assert!(read(forward).contains("node 0"));
    let arity = r#"{"n_inputs":1,"nodes":[{"apply":{"op":"neg","operands":[]}}],"result":0}"#;
    assert!(read(arity).contains("expects 1 operands"));
    assert!(read(r#"{"n_inputs":1,"nodes":[{"input":1}],"result":0}"#).contains("below 1"));
}

#[test]
fn every_signature_has_one_result_or_none() {
    for &op in ScalarOp::ALL {
        let accepted = DType::ALL
            .iter()
            .filter(|&&dtype| {
                let mut operands = vec![dtype; op.arity()];
                if op == ScalarOp::Select {
                    operands[0] = DType::Bool;
                }
                op.signature().result_type(&operands).is_some()
            })
            .count();
        assert!(
            [1, 4, 8, 12, 13].contains(&accepted),
            "{} takes {accepted} dtypes",
            op.name()
        );
        assert_eq!(op.signature().result_type(&[]), None);
        assert!(!op.meaning().is_empty());
    }
}

proptest! {
    #[test]
    fn printing_is_stable_and_reading_back_keeps_the_text(ops in prop::collection::vec((0usize..60, any::<[u8; 3]>()), 1..20)) {
        let mut b = ExprBuilder::new(2);
        let mut ids = b.inputs();
        for (op, picks) in ops {
            let op = ScalarOp::ALL[op % ScalarOp::ALL.len()];
            let operands: Vec<NodeId> = picks.iter().take(op.arity()).map(|&pick| ids[pick as usize % ids.len()]).collect();
            ids.push(b.apply(op, &operands));
            ids.push(b.literal(f64::from(picks[0]), operands[0]));
        }
        let expr = b.finish(ids[ids.len() - 1]).unwrap();
        let back: Expr = serde_json::from_str(&serde_json::to_string(&expr).unwrap()).unwrap();
        prop_assert_eq!(back.to_string(), expr.to_string());
    }
}
