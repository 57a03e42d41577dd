//! Blocks and single elements agree exactly; invalid blocks are errors.

use kiln_tensor::{Tensor, bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::{Block, BlockMut, ExprBuilder, Function, NodeId};

/// A random expression in which every node is typed, over inputs of these dtypes.
fn random_expr(inputs: &[DType], choices: &[(usize, [u8; 3], usize)]) -> Expr {
    let mut b = ExprBuilder::new(inputs.len());
    let mut known: Vec<(NodeId, DType)> =
        b.inputs().into_iter().zip(inputs.iter().copied()).collect();
    for &(op, picks, cast) in choices {
        let first = known[picks[0] as usize % known.len()];
        if first.1 != DType::Bool {
            known.push((b.literal(f64::from(picks[1] % 100), first.0), first.1));
        }
        let op = match ScalarOp::ALL.get(op) {
            Some(&op) => op,
            None => ScalarOp::Cast(DType::ALL[cast % DType::ALL.len()]),
        };
        // The later operands have the dtype that the first one requires, if any.
        let mut operands = vec![first];
        for &pick in picks.iter().take(op.arity()).skip(1) {
            let wanted = if op == ScalarOp::Select && operands.len() == 2 {
                operands[1].1
            } else {
                first.1
            };
            let wanted = if op == ScalarOp::Select && operands.len() == 1 {
                inputs[0]
            } else {
                wanted
            };
            let fitting: Vec<_> = known.iter().filter(|(_, dtype)| *dtype == wanted).collect();
            operands.extend(
                fitting
                    .get(pick as usize % fitting.len().max(1))
                    .copied()
                    .copied(),
            );
        }
        let types: Vec<DType> = operands.iter().map(|&(_, dtype)| dtype).collect();
        if let Some(dtype) = op.signature().result_type(&types) {
            let ids: Vec<NodeId> = operands.iter().map(|&(id, _)| id).collect();
            known.push((b.apply(op, &ids), dtype));
        }
    }
    let result = known[known.len() - 1].0;
    b.finish(result).unwrap()
}

/// Elements of a dtype, including all kinds of edge cases.
fn elements(dtype: DType, len: usize, seed: u64) -> Tensor {
    let mut state = seed | 1;
    let values: Vec<f64> = (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            match (state >> 33) % 16 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => -0.0,
                3 => 1e-42,
                4 => 3e38,
                pick => (state >> 40) as f64 / 65536.0 - 128.0 * (pick % 2) as f64,
            }
        })
        .collect();
    let mut out = Tensor::zeros(dtype, &[len]).unwrap();
    let floats = Tensor::from_vec(&[len], values).unwrap();
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let cast = b.cast(dtype, x);
    let evaluator =
        BlockEvaluator::new(&b.finish(cast).unwrap(), &[DType::F64], Mode::Declared).unwrap();
    let block = Block::of_tensor(&floats).unwrap();
    evaluator
        .run(&[block], BlockMut::of_tensor(&mut out).unwrap())
        .unwrap();
    out
}

fn element(tensor: &Tensor, index: usize) -> ScalarValue {
    let index = if tensor.len() == 1 { 0 } else { index };
    Block::of_tensor(tensor)
        .unwrap()
        .part(index..index + 1)
        .first()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn blocks_and_single_elements_agree_exactly(
        dtypes in prop::collection::vec(0usize..13, 1..4),
        choices in prop::collection::vec((0usize..70, any::<[u8; 3]>(), 0usize..13), 0..12),
        len in prop_oneof![Just(0usize), Just(1), Just(2), Just(1023), Just(1024), Just(1025), Just(2100)],
        single in any::<[bool; 3]>(),
        promoted: bool,
        seed: u64,
    ) {
        let dtypes: Vec<DType> = dtypes.into_iter().map(|i| DType::ALL[i]).collect();
        let expr = random_expr(&dtypes, &choices);
        let mode = if promoted { Mode::Promoted } else { Mode::Declared };
        let evaluator = BlockEvaluator::new(&expr, &dtypes, mode).unwrap();
        let inputs: Vec<Tensor> = evaluator.input_types().iter().zip(single).zip(seed..)
            .map(|((&dtype, single), seed)| elements(dtype, if single { 1 } else { len }, seed))
            .collect();
        let blocks: Vec<Block<'_>> = inputs.iter().map(|x| Block::of_tensor(x).unwrap()).collect();
        let mut out = Tensor::zeros(evaluator.result_type(), &[len]).unwrap();
        let ran = evaluator.run(&blocks, BlockMut::of_tensor(&mut out).unwrap());
        let mut fault = None;
        for index in 0..len {
            let values: Vec<ScalarValue> = inputs.iter().map(|x| element(x, index)).collect();
            match evaluate(&expr, &values, mode) {
                Ok(value) if fault.is_none() && ran.is_ok() => {
                    prop_assert_eq!(element(&out, index), value, "{} of {:?}", expr, values);
                }
                Ok(_) => {}
                Err(error) => fault = Some(error.code()),
            }
        }
        prop_assert_eq!(ran.err().map(|error| error.code()), fault);
    }
}

#[test]
fn promoted_mode_ignores_the_declared_float_types() {
    // (x + 1) as f16 - 1, with a typed constant: exact in f64, lost in f16.
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let one = b.constant(1.0f32);
    let sum = b.add(x, one);
    let short = b.cast(DType::F16, sum);
    let one = b.literal(1.0, short);
    let rest = b.sub(short, one);
    let expr = b.finish(rest).unwrap();
    let x = ScalarValue::F32(1.0 / 4096.0);
    assert_eq!(
        evaluate(&expr, &[x], Mode::Declared).unwrap(),
        ScalarValue::F16(f16::ZERO)
    );
    assert_eq!(
        evaluate(&expr, &[x], Mode::Promoted).unwrap(),
        ScalarValue::F64(1.0 / 4096.0)
    );
    let evaluator = BlockEvaluator::new(&expr, &[DType::F32], Mode::Promoted).unwrap();
    assert_eq!(
        (evaluator.input_types(), evaluator.result_type()),
        (&[DType::F64][..], DType::F64)
    );
    // The declared dtypes are still checked.
    assert_eq!(
        BlockEvaluator::new(&expr, &[DType::F64], Mode::Promoted)
            .unwrap_err()
            .code(),
        "E0281"
    );
}

#[test]
fn sixteen_bit_floats_round_after_every_operation() {
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let square = b.mul(x, x);
    let root = b.sqrt(square);
    let expr = b.finish(root).unwrap();
    let x = bf16::from_f32(1.0078125);
    let square = bf16::from_f32(x.to_f32() * x.to_f32());
    let expected = bf16::from_f32(square.to_f32().sqrt());
    let found = evaluate(&expr, &[x.into()], Mode::Declared).unwrap();
    assert_eq!(found, ScalarValue::BF16(expected));
}

#[test]
fn mismatched_blocks_are_errors() {
    let add = Function::by_name("add").unwrap().expression(&[]).unwrap();
    let evaluator = BlockEvaluator::new(&add, &[DType::F32, DType::F32], Mode::Declared).unwrap();
    let (three, two, wide) = ([1.0f32; 3], [1.0f32; 2], [1.0f64; 3]);
    let run = |inputs: &[Block<'_>]| {
        let mut out = [0.0f32; 3];
        evaluator
            .run(inputs, (&mut out[..]).into())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        run(&[three[..].into(), two[..].into()]),
        Err("input 1: expected 3 elements or 1, found 2".into())
    );
    assert_eq!(
        run(&[wide[..].into(), three[..].into()]),
        Err("input 0: expected elements of f32, found f64".into())
    );
    assert_eq!(
        run(&[three[..].into()]),
        Err("expected 2 inputs, found 1".into())
    );
    let error = evaluator
        .run(
            &[three[..].into(), three[..].into()],
            (&mut [0u8; 3][..]).into(),
        )
        .unwrap_err();
    assert_eq!(error.code(), "E0880");
    assert_eq!(
        evaluate(&add, &[ScalarValue::F32(1.0)], Mode::Declared)
            .unwrap_err()
            .code(),
        "E0283"
    );
}

#[test]
fn inputs_and_constants_are_expressions() {
    let mut b = ExprBuilder::new(2);
    let inputs = b.inputs();
    let second = b.finish(inputs[1]).unwrap();
    let evaluator =
        BlockEvaluator::new(&second, &[DType::I8, DType::Bool], Mode::Declared).unwrap();
    let mut out = [false; 3];
    evaluator
        .run(
            &[[1i8; 3][..].into(), [true][..].into()],
            (&mut out[..]).into(),
        )
        .unwrap();
    assert_eq!(out, [true; 3]);
    let mut b = ExprBuilder::new(0);
    let seven = b.constant(7u16);
    let evaluator = BlockEvaluator::new(&b.finish(seven).unwrap(), &[], Mode::Declared).unwrap();
    let mut out = [0u16; 2];
    evaluator.run(&[], (&mut out[..]).into()).unwrap();
    assert_eq!(out, [7; 2]);
}

#[test]
fn buffers_are_reused_along_a_chain() {
    let mut b = ExprBuilder::new(1);
    let mut x = b.input(0);
    for _ in 0..1000 {
        let one = b.literal(1.0, x);
        let sum = b.add(x, one);
        x = b.sin(sum);
    }
    let expr = b.finish(x).unwrap();
    let evaluator = BlockEvaluator::new(&expr, &[DType::F64], Mode::Declared).unwrap();
    assert_eq!(evaluator.buffers.len(), 3);
}

#[test]
fn evaluate_op_equals_a_one_operation_expression() {
    let value = evaluate_op(
        ScalarOp::Mul,
        &[0.1f32.into(), 3.0f32.into()],
        Mode::Declared,
    );
    assert_eq!(value, Ok(ScalarValue::F32(0.3)));
    let value = evaluate_op(
        ScalarOp::Mul,
        &[0.5f32.into(), 3.0f64.into()],
        Mode::Promoted,
    );
    assert_eq!(value, Ok(ScalarValue::F64(1.5)));
    let value = evaluate_op(ScalarOp::Cast(DType::F16), &[0.1f64.into()], Mode::Promoted);
    assert_eq!(value, Ok(ScalarValue::F64(0.1)));
    let value = evaluate_op(ScalarOp::Add, &[1i32.into(), 1i64.into()], Mode::Declared);
    assert_eq!(value.map_err(|error| error.code()), Err("E0281"));
    let value = evaluate_op(ScalarOp::Div, &[1i32.into(), 0i32.into()], Mode::Declared);
    assert_eq!(value.map_err(|error| error.code()), Err("E0882"));
}
