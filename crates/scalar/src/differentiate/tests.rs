//! Rules that are not covered by the named functions.

use kiln_tensor::DType;
use proptest::prelude::*;

use super::*;
use crate::{Mode, ScalarValue, evaluate};

fn value(expr: &Expr, inputs: &[f64]) -> f64 {
    let inputs: Vec<ScalarValue> = inputs.iter().map(|&x| ScalarValue::F64(x)).collect();
    evaluate(expr, &inputs, Mode::Declared).unwrap().to_f64()
}

#[test]
fn trivial_derivatives_add_no_steps() {
    let mut b = ExprBuilder::new(2);
    let (x, y) = (b.input(0), b.input(1));
    let square = b.mul(y, y);
    let sum = b.add(x, square);
    let expr = b.finish(sum).unwrap();
    assert_eq!(
        differentiate(&expr, 0).unwrap().to_string(),
        "1.0 like add(x0, mul(x1, x1))"
    );
    assert_eq!(differentiate(&expr, 1).unwrap().to_string(), "add(x1, x1)");
    assert_eq!(differentiate(&expr, 2).unwrap_err().code(), "E0286");
}

#[test]
fn derivatives_of_independent_expressions_are_zero() {
    let mut b = ExprBuilder::new(2);
    let x = b.input(0);
    let whole = b.floor(x);
    let expr = b.finish(whole).unwrap();
    for input in 0..2 {
        let slope = differentiate(&expr, input).unwrap();
        assert_eq!(slope.to_string(), format!("0.0 like x{input}"));
    }
}

#[test]
fn casts_between_floats_propagate_derivatives() {
    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let wide = b.cast(DType::F64, x);
    let square = b.mul(wide, wide);
    let narrow = b.cast(DType::F32, square);
    let slope = differentiate(&b.finish(narrow).unwrap(), 0).unwrap();
    assert_eq!(slope.result_type(&[DType::F32]).unwrap(), DType::F32);
    let found = evaluate(&slope, &[ScalarValue::F32(1.5)], Mode::Declared).unwrap();
    assert_eq!(found, ScalarValue::F32(3.0));

    let mut b = ExprBuilder::new(1);
    let x = b.input(0);
    let whole = b.cast(DType::I32, x);
    let back = b.cast(DType::F32, whole);
    let slope = differentiate(&b.finish(back).unwrap(), 0).unwrap();
    assert_eq!(value(&slope, &[7.5]), 0.0);
}

#[test]
fn a_long_chain_is_differentiated_without_recursion() {
    let mut b = ExprBuilder::new(1);
    let mut x = b.input(0);
    let factor = b.literal(1.0001, x);
    for _ in 0..20_000 {
        x = b.mul(x, factor);
    }
    let slope = differentiate(&b.finish(x).unwrap(), 0).unwrap();
    assert!((value(&slope, &[3.0]) / 1.0001f64.powi(20_000) - 1.0).abs() < 1e-9);
}

proptest! {
    /// The chain rule on random smooth expressions of one input.
    #[test]
    fn derivatives_of_random_expressions_agree_with_differences(
        choices in prop::collection::vec((0usize..8, any::<[u8; 2]>()), 1..8),
        x in -1.0f64..1.0,
    ) {
        let mut b = ExprBuilder::new(1);
        let mut known = vec![b.input(0)];
        for (kind, picks) in choices {
            let [left, right] = picks.map(|pick| known[pick as usize % known.len()]);
            known.push(match kind {
                0 => b.add(left, right),
                1 => b.sub(left, right),
                2 => b.mul(left, right),
                3 => b.tanh(left),
                4 => b.sin(left),
                5 => b.sigmoid(left),
                6 => b.erf(left),
                _ => b.cos(left),
            });
        }
        let expr = b.finish(known[known.len() - 1]).unwrap();
        let step = 1e-5;
        let (low, high) = (value(&expr, &[x - step]), value(&expr, &[x + step]));
        let difference = (high - low) / (2.0 * step);
        let slope = value(&differentiate(&expr, 0).unwrap(), &[x]);
        prop_assert!((slope - difference).abs() <= 1e-5 * difference.abs().max(1.0), "{} at {x}: {slope} and {difference}", expr);
    }
}
