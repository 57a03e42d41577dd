//! Every function, at every level that this machine supports, compared with `libm` in f64 or better.

use kiln_scalar::{ExprBuilder, Mode, ScalarOp, ScalarValue, Signature, evaluate};
use kiln_tensor::DType;

use super::{BUDGETS, Budget};
use crate::scalar_ops::emit;
use crate::testing::{Lanes, host_levels};
use kiln_backend::IsaLevel;

/// Special arguments of functions, and their neighbouring values.
const EDGES: &[f64] = &[
    0.0,
    1e-320,
    1e-310,
    1e-45,
    1e-40,
    1e-38,
    2e-38,
    1e-30,
    1e-10,
    1e-4,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.999999,
    1.0,
    1.000001,
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.5,
    7.0,
    10.0,
    17.5,
    20.0,
    22.0,
    40.0,
    88.0,
    88.72283,
    88.72284,
    89.5,
    103.9,
    104.5,
    127.0,
    128.0,
    149.0,
    150.0,
    700.0,
    709.782712893384,
    709.782712893385,
    710.4758600739439,
    711.0,
    745.13,
    745.14,
    746.0,
    1023.0,
    1024.0,
    1074.0,
    1075.0,
    1e5,
    999_999.9,
    1_000_000.1,
    8_388_607.0,
    8_388_609.0,
    1e10,
    1e15,
    9_007_199_254_740_991.0,
    9_007_199_254_740_993.0,
    1e18,
    1e22,
    3e38,
    1e60,
    1e154,
    1e300,
    1.7e308,
    f64::INFINITY,
    f64::NAN,
];

#[test]
fn functions_of_one_f32_are_within_budget() {
    // A prime stride covers every exponent and sign.
    sweep_f32(19_997);
}

#[test]
#[ignore = "every f32: minutes in a release build"]
fn functions_of_one_f32_are_within_budget_everywhere() {
    sweep_f32(1);
}

#[test]
fn functions_of_one_f64_are_within_budget() {
    let mut inputs = edges();
    let mut random = Random(7);
    for _ in 0..4_000 {
        // Uniform over exponents, then numbers of ordinary size.
        inputs.push(f64::from_bits(random.next()));
        let uniform = random.uniform();
        inputs.extend([
            uniform * 2.0 - 1.0,
            uniform * 20.0 - 10.0,
            uniform * 1600.0 - 800.0,
        ]);
        inputs.extend([
            1.0 + (uniform - 0.5) * 1e-3,
            uniform * 1e-5,
            (uniform - 0.5) * 1e7,
        ]);
    }
    for level in host_levels() {
        for budget in unary() {
            check_f64(level, budget, &inputs);
        }
    }
}

#[test]
fn functions_of_two_floats_are_within_budget() {
    let mut random = Random(11);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &x in &edges() {
        for &y in &edges() {
            a.push(x);
            b.push(y);
        }
    }
    for _ in 0..4_000 {
        let (x, y) = (random.uniform(), random.uniform());
        a.extend([
            x * 10.0,
            1.0 + (x - 0.5) * 1e-4,
            x * 1e-3,
            (x - 0.5) * 8.0,
            x * 1e30,
        ]);
        b.extend([
            y * 100.0 - 50.0,
            (y - 0.5) * 1e6,
            y * 50.0,
            (y * 20.0).round(),
            y * 5.0 - 2.5,
        ]);
        a.push(f64::from_bits(random.next()));
        b.push(f64::from_bits(random.next()));
    }
    let reference = |op| match op {
        ScalarOp::Pow => libm::pow,
        _ => libm::atan2,
    };
    for level in host_levels() {
        for budget in BUDGETS.iter().filter(|budget| budget.op.arity() == 2) {
            let lanes = level.lanes(64);
            let compiled = compile(level, lanes, budget.op, DType::F64);
            let results = compiled.run_f64(&[&a, &b]);
            let mut worst = MaxError::default();
            for ((&x, &y), &found) in a.iter().zip(&b).zip(&results) {
                let expected = reference(budget.op)(x, y);
                worst.record(error_f64(found, expected), || {
                    format!("{x:e}, {y:e}: {found:e} for {expected:e}")
                });
            }
            worst.check(level, budget.op, "f64", budget.f64);
            let (a, b): (Vec<f32>, Vec<f32>) = a
                .iter()
                .zip(&b)
                .map(|(&x, &y)| (x as f32, y as f32))
                .unzip();
            let compiled = compile(level, level.lanes(32), budget.op, DType::F32);
            let results = compiled.run_f32(&[&a, &b]);
            let mut worst = MaxError::default();
            for ((&x, &y), &found) in a.iter().zip(&b).zip(&results) {
                let expected = reference(budget.op)(f64::from(x), f64::from(y));
                worst.record(error_f32(found, expected), || {
                    format!("{x:e}, {y:e}: {found:e} for {expected:e}")
                });
            }
            worst.check(level, budget.op, "f32", budget.f32);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_lanes() {
    let wide = edges();
    let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
    for level in host_levels() {
        for budget in unary() {
            let narrow = |lanes| -> Vec<u32> {
                let results = compile(level, lanes, budget.op, DType::F32).run_f32(&[&narrow]);
                let bits = |x: &f32| if x.is_nan() { 1 } else { x.to_bits() };
                results.iter().map(bits).collect()
            };
            let wide = |lanes| -> Vec<u64> {
                let results = compile(level, lanes, budget.op, DType::F64).run_f64(&[&wide]);
                let bits = |x: &f64| if x.is_nan() { 1 } else { x.to_bits() };
                results.iter().map(bits).collect()
            };
            let of_one = (narrow(1), wide(1));
            for lanes in [2, 4, 8, 16] {
                let of_many = (narrow(lanes), wide(lanes));
                assert_eq!(of_many, of_one, "{level} {:?} {lanes} lanes", budget.op);
            }
        }
    }
}

/// Bit for bit, subnormal results included.
#[test]
fn exp_of_non_positive_arguments_equals_exp() {
    let negative = |x: f64| if x.is_nan() { x } else { -x.abs() };
    let mut inputs: Vec<f64> = edges().into_iter().map(negative).collect();
    let mut random = Random(5);
    for _ in 0..8_000 {
        inputs.push(negative(f64::from_bits(random.next())));
        inputs.extend([
            -random.uniform(),
            -110.0 * random.uniform(),
            -750.0 * random.uniform(),
        ]);
    }
    inputs.push(0.0);
    let narrow: Vec<f32> = inputs.iter().map(|&x| x as f32).collect();
    for level in host_levels() {
        let compiled = |dtype: DType| {
            let lanes = level.lanes(dtype.size_in_bytes() as u32 * 8);
            Lanes::new(level, lanes, &[dtype], &[dtype], |e, values| {
                vec![super::exp_of_non_positive(e, values[0])]
            })
        };
        let bits = |x: f32| if x.is_nan() { 1 } else { x.to_bits() };
        let usual = compile(level, level.lanes(32), ScalarOp::Exp, DType::F32).run_f32(&[&narrow]);
        let short = compiled(DType::F32).run_f32(&[&narrow]);
        for ((x, short), usual) in narrow.iter().zip(short).zip(usual) {
            assert_eq!(bits(short), bits(usual), "{level}: {x:e}");
        }
        let bits = |x: f64| if x.is_nan() { 1 } else { x.to_bits() };
        let usual = compile(level, level.lanes(64), ScalarOp::Exp, DType::F64).run_f64(&[&inputs]);
        let short = compiled(DType::F64).run_f64(&[&inputs]);
        for ((x, short), usual) in inputs.iter().zip(short).zip(usual) {
            assert_eq!(bits(short), bits(usual), "{level}: {x:e}");
        }
    }
}

#[test]
fn every_function_of_floats_has_a_budget_or_is_exact() {
    const EXACT: &[ScalarOp] = &[
        ScalarOp::Floor,
        ScalarOp::Ceil,
        ScalarOp::RoundEven,
        ScalarOp::Trunc,
        ScalarOp::Sqrt,
    ];
    for &op in ScalarOp::ALL {
        if matches!(op.signature(), Signature::Float1 | Signature::Float2) {
            let has_budget = BUDGETS.iter().any(|budget| budget.op == op);
            assert!(has_budget != EXACT.contains(&op), "{op:?}");
        }
    }
}

fn unary() -> impl Iterator<Item = Budget> {
    BUDGETS
        .iter()
        .copied()
        .filter(|budget| budget.op.arity() == 1)
}

fn edges() -> Vec<f64> {
    EDGES.iter().flat_map(|&x| [x, -x]).collect()
}

fn compile(level: IsaLevel, lanes: u32, op: ScalarOp, dtype: DType) -> Lanes {
    let dtypes = vec![dtype; op.arity()];
    Lanes::new(level, lanes, &dtypes, &[dtype], |e, values| {
        vec![emit(e, op, &dtypes, values).expect("it is known").value]
    })
}

fn sweep_f32(stride: usize) {
    let levels = host_levels();
    for budget in unary() {
        let compiled: Vec<(IsaLevel, Lanes)> = levels
            .iter()
            .map(|&level| {
                (
                    level,
                    compile(level, level.lanes(32), budget.op, DType::F32),
                )
            })
            .collect();
        let mut worst: Vec<MaxError> = levels.iter().map(|_| MaxError::default()).collect();
        let mut patterns = (0..=u64::from(u32::MAX)).step_by(stride).peekable();
        let mut extra = Some(edges());
        while patterns.peek().is_some() {
            let mut inputs: Vec<f32> = patterns
                .by_ref()
                .take(1 << 16)
                .map(|bits| f32::from_bits(bits as u32))
                .collect();
            inputs.extend(extra.take().unwrap_or_default().iter().map(|&x| x as f32));
            let expected: Vec<f64> = inputs
                .iter()
                .map(|&x| reference(budget.op, f64::from(x)))
                .collect();
            for ((_, compiled), worst) in compiled.iter().zip(&mut worst) {
                let results = compiled.run_f32(&[&inputs]);
                for ((&x, &found), &expected) in inputs.iter().zip(&results).zip(&expected) {
                    worst.record(error_f32(found, expected), || {
                        format!("{x:e} ({:#x}): {found:e} for {expected:e}", x.to_bits())
                    });
                }
            }
        }
        for (&level, worst) in levels.iter().zip(&worst) {
            worst.check(level, budget.op, "f32", budget.f32);
        }
    }
}

fn check_f64(level: IsaLevel, budget: Budget, inputs: &[f64]) {
    let compiled = compile(level, level.lanes(64), budget.op, DType::F64);
    let results = compiled.run_f64(&[inputs]);
    let mut worst = MaxError::default();
    for (&x, &found) in inputs.iter().zip(&results) {
        let expected = reference(budget.op, x);
        worst.record(error_f64(found, expected), || {
            format!("{x:e}: {found:e} for {expected:e}")
        });
    }
    worst.check(level, budget.op, "f64", budget.f64);
}

/// The interpreter's definition in f64 (see `references_equal_the_interpreters_definitions`).
fn reference(op: ScalarOp, x: f64) -> f64 {
    match op {
        ScalarOp::Rsqrt => 1.0 / x.sqrt(),
        ScalarOp::Exp => libm::exp(x),
        ScalarOp::Exp2 => libm::exp2(x),
        ScalarOp::Expm1 => libm::expm1(x),
        ScalarOp::Sigmoid => {
            let small = libm::exp(-x.abs());
            (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
        }
        ScalarOp::Log => libm::log(x),
        ScalarOp::Log2 => libm::log2(x),
        ScalarOp::Log1p => libm::log1p(x),
        ScalarOp::Sin => libm::sin(x),
        ScalarOp::Cos => libm::cos(x),
        ScalarOp::Tan => libm::tan(x),
        ScalarOp::Asin => libm::asin(x),
        ScalarOp::Acos => libm::acos(x),
        ScalarOp::Atan => libm::atan(x),
        ScalarOp::Sinh => libm::sinh(x),
        ScalarOp::Cosh => libm::cosh(x),
        ScalarOp::Tanh => libm::tanh(x),
        ScalarOp::Asinh => libm::asinh(x),
        ScalarOp::Acosh if x < 1.0 => f64::NAN,
        ScalarOp::Acosh => libm::acosh(x),
        ScalarOp::Atanh => libm::atanh(x),
        ScalarOp::Erf => libm::erf(x),
        other => panic!("no reference for {other:?}"),
    }
}

#[test]
fn references_equal_the_interpreters_definitions() {
    for budget in unary() {
        let mut builder = ExprBuilder::new(1);
        let inputs = builder.inputs();
        let result = builder.apply(budget.op, &inputs);
        let expr = builder.finish(result).expect("it builds");
        for x in edges() {
            let defined = evaluate(&expr, &[ScalarValue::F64(x)], Mode::Declared);
            let defined = defined.expect("it has a value").to_f64();
            let reference = reference(budget.op, x);
            let same = defined.to_bits() == reference.to_bits();
            assert!(
                same || defined.is_nan() && reference.is_nan(),
                "{:?} {x:e}",
                budget.op
            );
        }
    }
}

/// The error of a result in units in the last place; infinite if a special case is wrong.
fn error_f32(found: f32, expected: f64) -> f64 {
    if expected.is_nan() || found.is_nan() {
        return if expected.is_nan() && found.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let rounded = expected as f32;
    if found.to_bits() == rounded.to_bits() {
        return 0.0;
    }
    if rounded == 0.0 && found == 0.0 || found.is_infinite() && rounded.is_infinite() {
        // The signs differ.
        return f64::INFINITY;
    }
    // Above the largest float, infinity counts as the next one.
    let value = |x: f32| {
        if x.is_infinite() {
            2f64.powi(128).copysign(f64::from(x))
        } else {
            f64::from(x)
        }
    };
    let exponent = (rounded.abs().to_bits() >> 23).clamp(1, 254) as i32;
    (value(found) - expected).abs() / 2f64.powi(exponent - 150)
}

fn error_f64(found: f64, expected: f64) -> f64 {
    if expected.is_nan() || found.is_nan() {
        return if expected.is_nan() && found.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if found.to_bits() == expected.to_bits() {
        return 0.0;
    }
    if found == expected
        || found.is_infinite() != expected.is_infinite()
            && found.abs().min(expected.abs()) < 1.7e308
    {
        return f64::INFINITY;
    }
    let order = |x: f64| {
        let bits = x.to_bits() as i64;
        i128::from(if bits < 0 { i64::MIN - bits } else { bits })
    };
    (order(found) - order(expected)).abs() as f64
}

/// The largest error seen, and where.
#[derive(Default)]
struct MaxError {
    error: f64,
    place: String,
}

impl MaxError {
    fn record(&mut self, error: f64, place: impl FnOnce() -> String) {
        if error > self.error {
            self.error = error;
            self.place = place();
        }
    }

    fn check(&self, level: IsaLevel, op: ScalarOp, dtype: &str, budget: f64) {
        println!(
            "BUDGET {} {dtype} {level}: {:.2} of {budget} at {}",
            op.name(),
            self.error,
            self.place
        );
        assert!(
            self.error <= budget,
            "{level} {} of {dtype}: {:.2} ulp, allowed {budget}, at {}",
            op.name(),
            self.error,
            self.place
        );
    }
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }
}
