//! The table as seen by its users; values; derivatives compared with finite differences.

use super::*;
use crate::{Mode, ScalarValue, evaluate};

fn function(name: &str) -> Function {
    Function::by_name(name).unwrap()
}

fn value(expr: &Expr, x: &[f64]) -> f64 {
    let x: Vec<ScalarValue> = x.iter().map(|&x| ScalarValue::F64(x)).collect();
    evaluate(expr, &x, Mode::Promoted).unwrap().to_f64()
}

fn at(name: &str, x: f64) -> f64 {
    value(&function(name).expression(&[]).unwrap(), &[x])
}

fn slope_at(name: &str, x: f64) -> f64 {
    value(
        &function(name).derivative(&[], 0).unwrap().unwrap(),
        &[x, 1.0],
    )
}

#[test]
fn composite_functions_match_their_definitions() {
    let mut text = String::new();
    // Philox has ten rounds, and is tested against its authors' published vectors.
    let is_short = |function: &Function| function.name() != "philox_4x32_10";
    let composite = Function::all().filter(|function| function.primitive().is_none());
    for function in composite.filter(is_short) {
        text += function.name();
        for Parameter { name, default } in function.parameters() {
            text += &format!(" {name}={default}");
        }
        text += &format!(": {}\n", function.expression(&[]).unwrap());
    }
    insta::assert_snapshot!(text, @"
    celu alpha=1: select(gt(x0, 0.0), x0, expm1(div(x0, 1.0)))
    clip: min(max(x0, x1), x2)
    elu alpha=1: select(gt(x0, 0.0), x0, expm1(x0))
    gelu: mul(mul(0.5, x0), add(1.0, erf(mul(x0, 0.7071067811865476))))
    gelu_tanh: mul(mul(0.5, x0), add(1.0, tanh(mul(0.7978845608028654, mul(x0, add(1.0, mul(0.044715, mul(x0, x0))))))))
    hard_sigmoid alpha=0.2 beta=0.5: max(0.0, min(1.0, add(mul(0.2, x0), 0.5)))
    hard_swish: mul(x0, max(0.0, min(1.0, add(mul(0.16666666666666666, x0), 0.5))))
    hard_tanh min=-1 max=1: max(-1.0, min(1.0, x0))
    identity: x0
    leaky_relu alpha=0.01: select(gt(x0, 0.0), x0, mul(0.01, x0))
    log_sigmoid: t0 = neg(x0); neg(add(max(0.0, t0), log1p(exp(neg(abs(t0))))))
    mish: t0 = exp(neg(abs(x0))); t1 = mul(t0, t0); t2 = gt(x0, 0.0); t3 = add(select(t2, 1.0, t1), mul(2.0, t0)); mul(x0, div(t3, add(t3, mul(2.0, select(t2, t1, 1.0)))))
    mul_no_nan: select(eq(x0, 0.0), 0.0, mul(x0, x1))
    prelu: select(gt(x0, 0.0), x0, mul(x1, x0))
    quick_gelu alpha=1.702: mul(x0, sigmoid(mul(1.702, x0)))
    reciprocal: div(1.0, x0)
    relu: max(0.0, x0)
    selu alpha=1.6732631921768188 gamma=1.0507010221481323: select(gt(x0, 0.0), mul(1.0507010221481323, x0), mul(1.7580993463430303, expm1(x0)))
    silu: mul(x0, sigmoid(x0))
    softplus: add(max(0.0, x0), log1p(exp(neg(abs(x0)))))
    softsign: div(x0, add(1.0, abs(x0)))
    square: mul(x0, x0)
    stop_gradient: x0
    thresholded_relu alpha=1: select(le(x0, 1.0), 0.0, x0)
    ");
}

#[test]
fn handles_are_ordered_by_name_and_found_by_name() {
    let all: Vec<Function> = Function::all().collect();
    assert!(
        all.windows(2)
            .all(|pair| pair[0].name() < pair[1].name() && pair[0] < pair[1])
    );
    for &f in &all {
        assert_eq!(Function::by_name(f.name()), Some(f));
        assert!(!f.doc().is_empty());
        assert_eq!(f.expression(&[]).unwrap().n_inputs(), f.arity());
        let text = serde_json::to_string(&f).unwrap();
        assert_eq!(text, format!("\"{f}\""));
        assert_eq!(serde_json::from_str::<Function>(&text).unwrap(), f);
    }
    for op in ScalarOp::ALL {
        assert_eq!(function(op.name()).primitive(), Some(*op));
    }
    assert_eq!(function("swish"), function("silu"));
    assert_eq!(format!("{:?}", function("swish")), "Function(silu)");
    assert_eq!(Function::by_name("cast"), None);
    assert!(
        serde_json::from_str::<Function>("\"nope\"")
            .unwrap_err()
            .to_string()
            .contains("`nope`")
    );
}

#[test]
fn operands_and_parameters_are_counted() {
    let relu = function("relu");
    assert_eq!(
        relu.result_type(&[]).unwrap_err().to_string(),
        "`relu` expects 1 operands, found 0"
    );
    assert_eq!(
        relu.expression(&[1.0]).unwrap_err().to_string(),
        "`relu` has 0 parameters, found 1"
    );
    assert_eq!(relu.derivative(&[], 1).unwrap_err().code(), "E0286");
    let elu = function("elu").expression(&[0.5]).unwrap();
    assert_eq!(value(&elu, &[-1.0]), 0.5 * (-1f64).exp_m1());
}

#[test]
fn result_types_follow_the_definition() {
    let of = |name, operands: &[DType]| function(name).result_type(operands).ok();
    assert_eq!(of("relu", &[DType::I32]), Some(DType::I32));
    assert_eq!(of("leaky_relu", &[DType::I32]), None);
    assert_eq!(of("gelu", &[DType::BF16]), Some(DType::BF16));
    assert_eq!(of("clip", &[DType::U8; 3]), Some(DType::U8));
    assert_eq!(of("prelu", &[DType::F32, DType::F16]), None);
    assert_eq!(
        of("select", &[DType::Bool, DType::I64, DType::I64]),
        Some(DType::I64)
    );
    assert_eq!(of("is_nan", &[DType::F16]), Some(DType::Bool));
}

#[test]
fn function_values_match_other_implementations() {
    // From the definitions, computed elsewhere to 16 digits.
    let table: &[(&str, f64, f64)] = &[
        ("gelu", 1.0, 0.841_344_746_068_542_9),
        ("gelu", -1.0, -0.158_655_253_931_457_05),
        ("gelu_tanh", 1.0, 0.841_191_990_608_276_8),
        ("silu", 1.0, 0.731_058_578_630_004_9),
        ("mish", 1.0, 0.865_098_388_267_310_3),
        ("softplus", 0.0, std::f64::consts::LN_2),
        ("softplus", 800.0, 800.0),
        ("softplus", -800.0, 0.0),
        ("log_sigmoid", -800.0, -800.0),
        ("log_sigmoid", 800.0, 0.0),
        ("softsign", -3.0, -0.75),
        ("hard_sigmoid", 1.0, 0.7),
        ("hard_swish", 1.5, 1.125),
        ("hard_swish", -4.0, -0.0),
        ("hard_swish", 4.0, 4.0),
        ("hard_tanh", -7.0, -1.0),
        ("selu", 1.0, 1.050_701_022_148_132_3),
        ("selu", -1.0, -1.111_330_741_286_478_4),
        ("celu", -1.0, -0.632_120_558_828_557_7),
        ("thresholded_relu", 1.0, 0.0),
        ("thresholded_relu", 1.5, 1.5),
        ("leaky_relu", -2.0, -0.02),
        ("quick_gelu", 1.0, 0.845_795_765_932_821_2),
        ("reciprocal", 4.0, 0.25),
        ("square", -3.0, 9.0),
        ("relu", -0.5, 0.0),
        ("identity", -0.5, -0.5),
    ];
    for &(name, x, expected) in table {
        let found = at(name, x);
        assert!(
            (found - expected).abs() <= 1e-15 * expected.abs().max(1.0),
            "{name}({x}) is {found}"
        );
    }
    let clip = function("clip").expression(&[]).unwrap();
    assert_eq!(
        [-1.0, 0.5, 9.0].map(|x| value(&clip, &[x, 0.0, 1.0])),
        [0.0, 0.5, 1.0]
    );
    assert_eq!(value(&clip, &[0.5, 3.0, 1.0]), 1.0);
}

#[test]
fn every_float_function_propagates_nan() {
    for f in Function::all() {
        let expr = f.expression(&[]).unwrap();
        if expr.result_type(&vec![DType::F64; f.arity()]) != Ok(DType::F64) || f.name() == "pow" {
            continue;
        }
        for operand in 0..f.arity() {
            let mut x = vec![0.5; f.arity()];
            x[operand] = f64::NAN;
            // An unused slope does not affect the positive side of `prelu`.
            let used = !(f.name() == "prelu" && operand == 1);
            assert_eq!(value(&expr, &x).is_nan(), used, "{f}{x:?}");
        }
    }
}

#[test]
fn derivatives_at_kinks_are_as_documented() {
    let table: &[(&str, f64, f64)] = &[
        ("relu", 0.0, 0.0),
        ("relu", -0.0, 0.0),
        ("leaky_relu", 0.0, 0.01),
        ("thresholded_relu", 1.0, 0.0),
        ("elu", 0.0, 1.0),
        ("celu", 0.0, 1.0),
        ("softsign", 0.0, 1.0),
        ("softplus", 0.0, 0.5),
        ("log_sigmoid", 0.0, 0.5),
        ("mish", 0.0, 0.6),
        ("hard_sigmoid", -2.5, 0.0),
        ("hard_sigmoid", 2.5, 0.0),
        ("hard_swish", -3.0, 0.0),
        ("hard_swish", 3.0, 1.0),
        ("hard_tanh", 1.0, 0.0),
        ("hard_tanh", -1.0, 0.0),
        ("abs", 0.0, 0.0),
    ];
    for &(name, x, expected) in table {
        let found = slope_at(name, x);
        assert!(
            (found - expected).abs() < 1e-15,
            "slope of {name} at {x} is {found}"
        );
    }
    let slopes = |name, x: [f64; 2]| {
        [0, 1].map(|operand| {
            let slope = function(name).derivative(&[], operand).unwrap().unwrap();
            value(&slope, &[x[0], x[1], 1.0])
        })
    };
    assert_eq!(slopes("max", [2.0, 2.0]), [1.0, 0.0]);
    assert_eq!(slopes("min", [2.0, 2.0]), [1.0, 0.0]);
    assert_eq!(slopes("pow", [0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(slopes("pow", [0.0, 2.0]), [0.0, 0.0]);
    assert_eq!(slopes("prelu", [0.0, 0.25]), [0.25, 0.0]);
}

#[test]
fn derivatives_at_extreme_inputs_are_finite_and_right() {
    for name in [
        "sigmoid",
        "silu",
        "softplus",
        "log_sigmoid",
        "mish",
        "gelu",
        "gelu_tanh",
        "quick_gelu",
        "tanh",
        "erf",
        "softsign",
        "elu",
        "celu",
        "selu",
        "hard_swish",
        "relu",
    ] {
        for x in [-1e3, 1e3] {
            let far = slope_at(name, x);
            assert!(
                far.is_finite() && far.abs() < 1.1,
                "slope of {name} at {x} is {far}"
            );
        }
    }
    // The tail of the sigmoid is not lost in 1 - y.
    let tail = slope_at("sigmoid", 40.0);
    assert!((tail / (-40f64).exp() - 1.0).abs() < 1e-15);
}

/// Points of differentiation: each is inside the domain of some function, and none is at a kink.
const POINTS: [f64; 9] = [-2.7, -1.3, -0.6, -0.2, 0.3, 0.8, 1.7, 2.4, 3.6];

#[test]
fn every_derivative_agrees_with_differences() {
    let upstream = 1.5;
    for f in Function::all() {
        let expr = f.expression(&[]).unwrap();
        let types: Vec<DType> = match f.primitive() {
            Some(ScalarOp::Select) => vec![DType::Bool, DType::F64, DType::F64],
            _ => vec![DType::F64; f.arity()],
        };
        // A function that stops gradients differs from its finite differences on purpose.
        let is_stopped = f.name() == "stop_gradient";
        if is_stopped || expr.result_type(&types) != Ok(DType::F64) {
            continue;
        }
        for operand in (0..f.arity()).filter(|&operand| types[operand].is_float()) {
            let slope = f.derivative(&[], operand).unwrap();
            let mut checked = 0;
            for (i, &point) in POINTS.iter().enumerate() {
                let mut x: Vec<ScalarValue> = (0..f.arity())
                    .map(|j| match types[j] {
                        DType::Bool => ScalarValue::Bool(i % 2 == 0),
                        _ => ScalarValue::F64(POINTS[(4 * i + 5 * j) % POINTS.len()] + 0.01),
                    })
                    .collect();
                let mut moved = |by: f64| {
                    x[operand] = ScalarValue::F64(point + by);
                    evaluate(&expr, &x, Mode::Declared).unwrap().to_f64()
                };
                let step = 1e-5;
                let difference = (moved(step) - moved(-step)) / (2.0 * step);
                moved(0.0);
                if !difference.is_finite() {
                    continue;
                }
                let expected = upstream * difference;
                x.push(ScalarValue::F64(upstream));
                let found = match &slope {
                    Some(slope) => evaluate(slope, &x, Mode::Declared).unwrap().to_f64(),
                    None => 0.0,
                };
                let close = (found - expected).abs() <= 1e-7 * expected.abs().max(1.0);
                assert!(
                    close,
                    "slope {operand} of {f} at {x:?}: expected {expected}, found {found}"
                );
                checked += 1;
            }
            assert!(checked >= 2, "{f} was checked at {checked} points");
        }
    }
}

#[test]
fn every_derivative_is_typed_like_its_function() {
    for f in Function::all() {
        for dtype in [DType::F32, DType::F16] {
            for operand in 0..f.arity() {
                let mut types = vec![dtype; f.arity()];
                if f.primitive() == Some(ScalarOp::Select) {
                    types[0] = DType::Bool;
                }
                if f.result_type(&types) != Ok(dtype) {
                    continue;
                }
                types.push(dtype);
                if let Some(slope) = f.derivative(&[], operand).unwrap() {
                    assert_eq!(slope.result_type(&types), Ok(dtype), "{f}");
                }
            }
        }
    }
    assert!(function("floor").derivative(&[], 0).unwrap().is_none());
    assert!(function("lt").derivative(&[], 0).unwrap().is_none());
    assert!(function("select").derivative(&[], 0).unwrap().is_none());
}

#[test]
fn functions_that_fault_on_integers_are_known() {
    let ends = [0i64, -1, 1, i64::MIN].map(ScalarValue::from);
    for function in Function::all() {
        let arity = function.arity();
        if function.result_type(&vec![DType::I64; arity]).is_err() {
            continue;
        }
        let expression = function.expression(&[]).unwrap();
        let faults = (0..ends.len().pow(arity as u32)).any(|choice| {
            let operand = |place: usize| ends[choice / ends.len().pow(place as u32) % ends.len()];
            let operands: Vec<ScalarValue> = (0..arity).map(operand).collect();
            evaluate(&expression, &operands, Mode::Declared).is_err()
        });
        let may_fault = function.may_fault_on_integers();
        assert!(!faults || may_fault, "{}", function.name());
        assert!(
            faults || function.primitive().is_none() || !may_fault,
            "{}",
            function.name()
        );
    }
}
