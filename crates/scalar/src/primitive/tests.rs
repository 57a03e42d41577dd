//! An example of every edge case of every primitive, in every dtype that it supports (table of faults, row 11).

use std::collections::BTreeSet;
use std::f64::consts::FRAC_PI_2;

use super::*;
use crate::{ExprBuilder, Mode, ScalarError, ScalarValue, evaluate};

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];
const SIGNED: [DType; 4] = [DType::I64, DType::I32, DType::I16, DType::I8];
const UNSIGNED: [DType; 4] = [DType::U64, DType::U32, DType::U16, DType::U8];
const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Arguments of a function, with its values.
type Points = &'static [(f64, f64)];

/// The value of one operation, computed by an expression.
fn value(op: ScalarOp, operands: &[ScalarValue], mode: Mode) -> Result<ScalarValue, ScalarError> {
    let mut b = ExprBuilder::new(operands.len());
    let inputs = b.inputs();
    let result = b.apply(op, &inputs);
    evaluate(&b.finish(result)?, operands, mode)
}

fn number(number: f64, dtype: DType) -> ScalarValue {
    ScalarValue::from_number(number, dtype).unwrap()
}

/// The minimum and the maximum value of an integer dtype.
fn limits(dtype: DType) -> (ScalarValue, ScalarValue) {
    let wide = |x: f64| {
        value(
            ScalarOp::Cast(dtype),
            &[ScalarValue::F64(x)],
            Mode::Declared,
        )
    };
    (wide(-1e30).unwrap(), wide(1e30).unwrap())
}

/// Equal by bits, except that all NaNs are equal.
#[track_caller]
fn expect(what: &str, found: ScalarValue, expected: ScalarValue) {
    let both_nan = found.to_f64().is_nan() && expected.to_f64().is_nan();
    let same = found == expected || (both_nan && found.dtype() == expected.dtype());
    assert!(same, "{what}: expected {expected}, found {found}");
}

/// Operations seen by the tables below.
#[derive(Default)]
struct Seen(BTreeSet<ScalarOp>);

impl Seen {
    #[track_caller]
    fn check(&mut self, op: ScalarOp, operands: &[ScalarValue], expected: ScalarValue) {
        self.0.insert(op);
        let what = format!("{}{operands:?}", op.name());
        expect(
            &what,
            value(op, operands, Mode::Declared).unwrap(),
            expected,
        );
    }

    /// Checks numbers in each of the dtypes, and the same in f64 in promoted mode.
    #[track_caller]
    fn numbers(&mut self, dtypes: &[DType], op: ScalarOp, operands: &[f64], expected: f64) {
        for &dtype in dtypes {
            let typed: Vec<ScalarValue> = operands.iter().map(|&x| number(x, dtype)).collect();
            self.check(op, &typed, number(expected, dtype));
            if dtype.is_float() {
                let promoted = value(op, &typed, Mode::Promoted).unwrap();
                let exact: Vec<ScalarValue> =
                    typed.iter().map(|x| ScalarValue::F64(x.to_f64())).collect();
                expect(
                    "promoted",
                    promoted,
                    value(op, &exact, Mode::Declared).unwrap(),
                );
            }
        }
    }

    #[track_caller]
    fn truth(&mut self, dtypes: &[DType], op: ScalarOp, operands: &[f64], expected: bool) {
        for &dtype in dtypes {
            let typed: Vec<ScalarValue> = operands.iter().map(|&x| number(x, dtype)).collect();
            self.check(op, &typed, ScalarValue::Bool(expected));
        }
    }

    #[track_caller]
    fn fault(&mut self, dtypes: &[DType], op: ScalarOp, operands: &[f64]) {
        self.0.insert(op);
        for &dtype in dtypes {
            let typed: Vec<ScalarValue> = operands.iter().map(|&x| number(x, dtype)).collect();
            let error = value(op, &typed, Mode::Declared).unwrap_err();
            assert_eq!(error.code(), "E0882", "{}{typed:?}", op.name());
            assert!(error.to_string().contains(op.name()));
        }
    }
}

#[test]
fn edge_behaviour_of_every_primitive_is_defined() {
    let mut seen = Seen::default();
    float_functions(&mut seen);
    float_arithmetic(&mut seen);
    integer_arithmetic(&mut seen);
    comparisons_and_logic(&mut seen);
    bits(&mut seen);
    let missing: Vec<&str> = ScalarOp::ALL
        .iter()
        .filter(|op| !seen.0.contains(op))
        .map(|op| op.name())
        .collect();
    assert_eq!(missing, [""; 0], "primitives without an edge case");
}

fn float_functions(seen: &mut Seen) {
    // Each with its values at NaN (always NaN), -inf, +inf, -0, +0 and some further points.
    let table: &[(ScalarOp, [f64; 4], Points)] = &[
        (
            ScalarOp::Floor,
            [-INF, INF, -0.0, 0.0],
            &[(-0.5, -1.0), (0.5, 0.0), (2.0, 2.0)],
        ),
        (
            ScalarOp::Ceil,
            [-INF, INF, -0.0, 0.0],
            &[(-0.5, -0.0), (0.5, 1.0)],
        ),
        (
            ScalarOp::RoundEven,
            [-INF, INF, -0.0, 0.0],
            &[(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0)],
        ),
        (
            ScalarOp::Trunc,
            [-INF, INF, -0.0, 0.0],
            &[(-1.5, -1.0), (-0.5, -0.0), (1.5, 1.0)],
        ),
        (
            ScalarOp::Sqrt,
            [NAN, INF, -0.0, 0.0],
            &[(-1.0, NAN), (4.0, 2.0)],
        ),
        (
            ScalarOp::Rsqrt,
            [NAN, 0.0, -INF, INF],
            &[(-1.0, NAN), (4.0, 0.5)],
        ),
        (
            ScalarOp::Exp,
            [0.0, INF, 1.0, 1.0],
            &[(-1e4, 0.0), (1e4, INF)],
        ),
        (
            ScalarOp::Exp2,
            [0.0, INF, 1.0, 1.0],
            &[(-1.0, 0.5), (1e4, INF)],
        ),
        (
            ScalarOp::Expm1,
            [-1.0, INF, -0.0, 0.0],
            &[(1e4, INF), (-1e4, -1.0)],
        ),
        (
            ScalarOp::Log,
            [NAN, INF, -INF, -INF],
            &[(1.0, 0.0), (-1.0, NAN)],
        ),
        (
            ScalarOp::Log2,
            [NAN, INF, -INF, -INF],
            &[(8.0, 3.0), (-1.0, NAN)],
        ),
        (
            ScalarOp::Log1p,
            [NAN, INF, -0.0, 0.0],
            &[(-1.0, -INF), (-2.0, NAN)],
        ),
        (ScalarOp::Sin, [NAN, NAN, -0.0, 0.0], &[]),
        (ScalarOp::Cos, [NAN, NAN, 1.0, 1.0], &[]),
        (ScalarOp::Tan, [NAN, NAN, -0.0, 0.0], &[]),
        (
            ScalarOp::Asin,
            [NAN, NAN, -0.0, 0.0],
            &[(1.5, NAN), (-1.5, NAN), (1.0, FRAC_PI_2)],
        ),
        (
            ScalarOp::Acos,
            [NAN, NAN, FRAC_PI_2, FRAC_PI_2],
            &[(1.5, NAN), (1.0, 0.0)],
        ),
        (ScalarOp::Atan, [-FRAC_PI_2, FRAC_PI_2, -0.0, 0.0], &[]),
        (ScalarOp::Sinh, [-INF, INF, -0.0, 0.0], &[(1e4, INF)]),
        (ScalarOp::Cosh, [INF, INF, 1.0, 1.0], &[(-1e4, INF)]),
        (ScalarOp::Tanh, [-1.0, 1.0, -0.0, 0.0], &[(1e4, 1.0)]),
        (ScalarOp::Asinh, [-INF, INF, -0.0, 0.0], &[]),
        (
            ScalarOp::Acosh,
            [NAN, INF, NAN, NAN],
            &[(1.0, 0.0), (0.5, NAN), (-1e5, NAN), (-1e10, NAN)],
        ),
        (
            ScalarOp::Atanh,
            [NAN, NAN, -0.0, 0.0],
            &[(1.0, INF), (-1.0, -INF), (2.0, NAN)],
        ),
        (ScalarOp::Erf, [-1.0, 1.0, -0.0, 0.0], &[(1e4, 1.0)]),
        (
            ScalarOp::Sigmoid,
            [0.0, 1.0, 0.5, 0.5],
            &[(-1e4, 0.0), (1e4, 1.0)],
        ),
    ];
    for &(op, [low, high, minus_zero, zero], points) in table {
        assert_eq!(op.signature(), Signature::Float1);
        seen.numbers(&FLOATS, op, &[NAN], NAN);
        for (x, y) in [(-INF, low), (INF, high), (-0.0, minus_zero), (0.0, zero)] {
            seen.numbers(&FLOATS, op, &[x], y);
        }
        for &(x, y) in points {
            seen.numbers(&FLOATS, op, &[x], y);
        }
    }
    // Denormals are ordinary numbers: nothing is flushed to zero.
    let tiny = ScalarValue::F32(f32::from_bits(1));
    seen.check(ScalarOp::Sin, &[tiny], tiny);
    seen.check(
        ScalarOp::Floor,
        &[ScalarValue::F32(-f32::from_bits(1))],
        ScalarValue::F32(-1.0),
    );
    seen.check(
        ScalarOp::Sqrt,
        &[ScalarValue::F16(f16::from_bits(1))],
        ScalarValue::F16(f16::from_f32(2f32.powi(-12))),
    );
    // Accurate where the naive formula is not.
    seen.check(
        ScalarOp::Expm1,
        &[ScalarValue::F64(1e-20)],
        ScalarValue::F64(1e-20),
    );
    seen.check(
        ScalarOp::Log1p,
        &[ScalarValue::F64(1e-20)],
        ScalarValue::F64(1e-20),
    );
    seen.check(
        ScalarOp::Sigmoid,
        &[ScalarValue::F32(-100.0)],
        ScalarValue::F32(f32::from_bits(27)),
    );
}

fn float_arithmetic(seen: &mut Seen) {
    use ScalarOp::*;
    for op in [Add, Sub, Mul, Div, FloorDiv, Rem, FloorMod, Min, Max, Atan2] {
        for operands in [[NAN, 1.0], [1.0, NAN], [NAN, NAN]] {
            seen.numbers(&FLOATS, op, &operands, NAN);
        }
    }
    let binary: &[(ScalarOp, f64, f64, f64)] = &[
        (Add, INF, -INF, NAN),
        (Add, -0.0, 0.0, 0.0),
        (Add, -0.0, -0.0, -0.0),
        (Sub, INF, INF, NAN),
        (Sub, 0.0, 0.0, 0.0),
        (Mul, 0.0, INF, NAN),
        (Mul, -0.0, 5.0, -0.0),
        (Div, 1.0, 0.0, INF),
        (Div, 1.0, -0.0, -INF),
        (Div, 0.0, 0.0, NAN),
        (Div, INF, INF, NAN),
        (Div, 1.0, -INF, -0.0),
        (Rem, 5.5, 2.0, 1.5),
        (Rem, -5.5, 2.0, -1.5),
        (Rem, 5.5, -2.0, 1.5),
        (Rem, -4.0, 2.0, -0.0),
        (Rem, 1.0, 0.0, NAN),
        (Rem, INF, 1.0, NAN),
        (Rem, 1.0, INF, 1.0),
        (FloorDiv, 5.5, 2.0, 2.0),
        (FloorDiv, -5.5, 2.0, -3.0),
        (FloorDiv, 1.0, 0.0, INF),
        (FloorDiv, 0.0, 0.0, NAN),
        (FloorDiv, -1.0, INF, -0.0),
        (FloorMod, 5.5, 2.0, 1.5),
        (FloorMod, -5.5, 2.0, 0.5),
        (FloorMod, 5.5, -2.0, -0.5),
        (FloorMod, -4.0, 2.0, 0.0),
        (FloorMod, 4.0, -2.0, -0.0),
        (FloorMod, 1.0, 0.0, NAN),
        (FloorMod, INF, 1.0, NAN),
        (FloorMod, 1.0, INF, 1.0),
        (FloorMod, -1.0, INF, INF),
        (Pow, NAN, 0.0, 1.0),
        (Pow, 1.0, NAN, 1.0),
        (Pow, NAN, 1.0, NAN),
        (Pow, 0.0, 0.0, 1.0),
        (Pow, 0.0, -1.0, INF),
        (Pow, -0.0, -1.0, -INF),
        (Pow, -2.0, 3.0, -8.0),
        (Pow, -2.0, 0.5, NAN),
        (Pow, 2.0, -INF, 0.0),
        (Pow, -1.0, INF, 1.0),
        (Min, -0.0, 0.0, -0.0),
        (Min, 0.0, -0.0, -0.0),
        (Min, -INF, INF, -INF),
        (Max, -0.0, 0.0, 0.0),
        (Max, 0.0, -0.0, 0.0),
        (Max, -INF, INF, INF),
        (Atan2, 0.0, -1.0, std::f64::consts::PI),
        (Atan2, -0.0, -1.0, -std::f64::consts::PI),
        (Atan2, 0.0, 0.0, 0.0),
        (Atan2, INF, INF, std::f64::consts::FRAC_PI_4),
    ];
    for &(op, a, b, expected) in binary {
        seen.numbers(&FLOATS, op, &[a, b], expected);
    }
    let unary: &[(ScalarOp, f64, f64)] = &[
        (Neg, 0.0, -0.0),
        (Neg, -INF, INF),
        (Neg, NAN, NAN),
        (Abs, -0.0, 0.0),
        (Abs, -INF, INF),
        (Abs, NAN, NAN),
        (Sign, -0.0, -0.0),
        (Sign, 0.0, 0.0),
        (Sign, -INF, -1.0),
        (Sign, 3.0, 1.0),
        (Sign, NAN, NAN),
    ];
    for &(op, a, expected) in unary {
        seen.numbers(&FLOATS, op, &[a], expected);
    }
    let (tiny, half) = (ScalarValue::F32(f32::from_bits(2)), ScalarValue::F32(0.5));
    seen.check(Mul, &[tiny, half], ScalarValue::F32(f32::from_bits(1)));
    // Overflow and rounding are those of the declared dtype, and of f64 in promoted mode.
    let (max, one) = (
        ScalarValue::F16(f16::MAX),
        ScalarValue::F16(f16::from_f32(32.0)),
    );
    seen.check(Add, &[max, one], ScalarValue::F16(f16::INFINITY));
    let promoted = value(Add, &[max, one], Mode::Promoted).unwrap();
    assert_eq!(promoted, ScalarValue::F64(65536.0));
}

fn integer_arithmetic(seen: &mut Seen) {
    use ScalarOp::*;
    for op in [Div, FloorDiv, Rem, FloorMod] {
        seen.fault(&SIGNED, op, &[5.0, 0.0]);
        seen.fault(&UNSIGNED, op, &[0.0, 0.0]);
    }
    seen.fault(&SIGNED, Pow, &[0.0, -1.0]);
    let binary: &[(ScalarOp, f64, f64, f64)] = &[
        (Div, -7.0, 2.0, -3.0),
        (Div, 7.0, -2.0, -3.0),
        (Rem, -7.0, 2.0, -1.0),
        (Rem, 7.0, -2.0, 1.0),
        (FloorDiv, -7.0, 2.0, -4.0),
        (FloorDiv, 7.0, -2.0, -4.0),
        (FloorDiv, -7.0, -2.0, 3.0),
        (FloorDiv, -8.0, 2.0, -4.0),
        (FloorMod, -7.0, 2.0, 1.0),
        (FloorMod, 7.0, -2.0, -1.0),
        (FloorMod, -8.0, 2.0, 0.0),
        (Pow, 0.0, 0.0, 1.0),
        (Pow, -2.0, 3.0, -8.0),
        (Pow, 1.0, -9.0, 1.0),
        (Pow, -1.0, -3.0, -1.0),
        (Pow, -1.0, -4.0, 1.0),
        (Pow, 2.0, -1.0, 0.0),
        (Min, -1.0, 1.0, -1.0),
        (Max, -1.0, 1.0, 1.0),
    ];
    for &(op, a, b, expected) in binary {
        seen.numbers(&SIGNED, op, &[a, b], expected);
    }
    for (op, x, expected) in [
        (Sign, -5.0, -1.0),
        (Sign, 0.0, 0.0),
        (Abs, -5.0, 5.0),
        (Neg, 5.0, -5.0),
    ] {
        seen.numbers(&SIGNED, op, &[x], expected);
    }
    for (op, x, expected) in [
        (Sign, 5.0, 1.0),
        (Sign, 0.0, 0.0),
        (Abs, 5.0, 5.0),
        (Neg, 0.0, 0.0),
    ] {
        seen.numbers(&UNSIGNED, op, &[x], expected);
    }
    for dtype in SIGNED {
        let (min, max) = limits(dtype);
        let [one, minus_one, zero] = [1.0, -1.0, 0.0].map(|x| number(x, dtype));
        seen.check(Div, &[min, minus_one], min);
        seen.check(FloorDiv, &[min, minus_one], min);
        seen.check(Rem, &[min, minus_one], zero);
        seen.check(FloorMod, &[min, minus_one], zero);
        seen.check(Neg, &[min], min);
        seen.check(Abs, &[min], min);
        seen.check(Add, &[max, one], min);
        seen.check(Sub, &[min, one], max);
        seen.check(Mul, &[min, minus_one], min);
        seen.check(
            Pow,
            &[number(2.0, dtype), number(f64::from(dtype.bits()), dtype)],
            zero,
        );
        seen.check(Pow, &[minus_one, max], minus_one);
    }
    for dtype in UNSIGNED {
        let (zero, max) = limits(dtype);
        let one = number(1.0, dtype);
        seen.check(Add, &[max, one], zero);
        seen.check(Sub, &[zero, one], max);
        seen.check(Mul, &[max, max], one);
        seen.check(Neg, &[one], max);
        seen.check(Pow, &[max, max], max);
        seen.check(FloorMod, &[max, number(2.0, dtype)], one);
    }
}

fn comparisons_and_logic(seen: &mut Seen) {
    use ScalarOp::*;
    for (a, b) in [(NAN, 1.0), (1.0, NAN), (NAN, NAN)] {
        for op in [Eq, Lt, Le, Gt, Ge] {
            seen.truth(&FLOATS, op, &[a, b], false);
        }
        seen.truth(&FLOATS, Ne, &[a, b], true);
    }
    let all: Vec<DType> = FLOATS.into_iter().chain(SIGNED).collect();
    for (op, [less, same, more]) in [
        (Eq, [false, true, false]),
        (Ne, [true, false, true]),
        (Lt, [true, false, false]),
        (Le, [true, true, false]),
        (Gt, [false, false, true]),
        (Ge, [false, true, true]),
    ] {
        seen.truth(&all, op, &[-1.0, 1.0], less);
        seen.truth(&all, op, &[1.0, 1.0], same);
        seen.truth(&all, op, &[1.0, -1.0], more);
        seen.truth(&FLOATS, op, &[-0.0, 0.0], same);
        seen.truth(&UNSIGNED, op, &[100.0, 200.0], less);
        seen.check(op, &[false.into(), true.into()], less.into());
    }
    for (op, [ff, ft, tt]) in [
        (And, [false, false, true]),
        (Or, [false, true, true]),
        (Xor, [false, true, false]),
    ] {
        for (a, b, expected) in [
            (false, false, ff),
            (false, true, ft),
            (true, false, ft),
            (true, true, tt),
        ] {
            seen.check(op, &[a.into(), b.into()], expected.into());
        }
    }
    seen.check(Not, &[true.into()], false.into());
    for (x, nan, inf) in [(NAN, true, false), (-INF, false, true), (0.0, false, false)] {
        seen.truth(&FLOATS, IsNan, &[x], nan);
        seen.truth(&FLOATS, IsInf, &[x], inf);
    }
    for dtype in DType::ALL {
        let (zero, one) = (
            ScalarValue::zero(dtype),
            value(Cast(dtype), &[true.into()], Mode::Declared).unwrap(),
        );
        seen.check(Select, &[true.into(), one, zero], one);
        seen.check(Select, &[false.into(), one, zero], zero);
    }
    // A NaN that was not selected has no effect.
    let (one, nan) = (ScalarValue::F32(1.0), ScalarValue::F32(f32::NAN));
    seen.check(Select, &[true.into(), one, nan], one);
}

fn bits(seen: &mut Seen) {
    use ScalarOp::*;
    let integers: Vec<DType> = SIGNED.into_iter().chain(UNSIGNED).collect();
    for (op, a, b, expected) in [
        (BitAnd, 6.0, 3.0, 2.0),
        (BitOr, 6.0, 3.0, 7.0),
        (BitXor, 6.0, 3.0, 5.0),
        (Shl, 3.0, 2.0, 12.0),
        (Shr, 12.0, 2.0, 3.0),
        (Shl, 3.0, 64.0, 0.0),
        (Shl, 3.0, 100.0, 0.0),
        (Shr, 3.0, 64.0, 0.0),
        (Shr, 3.0, 100.0, 0.0),
    ] {
        seen.numbers(&integers, op, &[a, b], expected);
    }
    for (op, a, b, expected) in [
        (Shl, 3.0, -1.0, 0.0),
        (Shr, 3.0, -1.0, 0.0),
        (Shr, -3.0, -1.0, -1.0),
        (Shr, -3.0, 1.0, -2.0),
        (Shr, -3.0, 64.0, -1.0),
    ] {
        seen.numbers(&SIGNED, op, &[a, b], expected);
    }
    seen.numbers(&SIGNED, BitNot, &[0.0], -1.0);
    for dtype in integers {
        let (min, max) = limits(dtype);
        let width = number(f64::from(dtype.bits()), dtype);
        let last = number(f64::from(dtype.bits() - 1), dtype);
        let (zero, one) = (number(0.0, dtype), number(1.0, dtype));
        seen.check(BitNot, &[min], max);
        seen.check(Shl, &[max, width], zero);
        seen.check(Shr, &[max, width], zero);
        if dtype.is_signed() {
            seen.check(Shl, &[one, last], min);
            seen.check(Shr, &[min, last], number(-1.0, dtype));
            seen.check(Shr, &[min, width], number(-1.0, dtype));
        } else {
            seen.check(Shr, &[max, last], one);
        }
    }
}

#[test]
fn casts_saturate_wrap_and_round_once() {
    #[track_caller]
    fn check(from: impl Into<ScalarValue>, expected: impl Into<ScalarValue>) {
        let (from, expected) = (from.into(), expected.into());
        let found = value(ScalarOp::Cast(expected.dtype()), &[from], Mode::Declared).unwrap();
        expect(&format!("cast of {from:?}"), found, expected);
    }
    check(NAN, 0i32);
    check(-1.9f32, -1i8);
    check(300.0, i8::MAX);
    check(-300.0f32, i8::MIN);
    check(-1.0, 0u64);
    check(INF, u64::MAX);
    check(f16::INFINITY, i64::MAX);
    check(300i32, 44u8);
    check(-1i64, u32::MAX);
    check(u64::MAX, -1i8);
    check(i64::MAX, 2f64.powi(63));
    check(16_777_217i32, 16_777_216f32);
    check(u64::MAX, 2f32.powi(64));
    check(65_520i32, f16::INFINITY);
    check(65_519i32, f16::MAX);
    check(1e39, f32::INFINITY);
    check(1e-50, 0.0f32);
    check(-1e-50, -0.0f32);
    check(f32::NAN, f16::NAN);
    check(f32::from_bits(1), bf16::from_bits(0));
    check(
        1.0 + 2f64.powi(-11) + 2f64.powi(-40),
        f16::from_f32(1.0 + 2f32.powi(-10)),
    );
    for (x, truth) in [(0.0, false), (-0.0, false), (NAN, true), (1e-300, true)] {
        check(x, truth);
    }
    check(256i32, true);
    check(true, 1.0f32);
    check(false, 0u8);
    // Between floats, promoted mode changes nothing; to an integer it truncates the f64.
    let third = ScalarValue::F64(1.0 / 3.0);
    let promoted = |to| value(ScalarOp::Cast(to), &[third], Mode::Promoted).unwrap();
    assert_eq!(promoted(DType::F16), third);
    assert_eq!(promoted(DType::I32), ScalarValue::I32(0));
}
