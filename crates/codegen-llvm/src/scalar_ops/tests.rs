//! Every operation on every dtype that it takes, at every level that this machine supports, compared with the
//! interpreter's definition.

use kiln_scalar::{ExprBuilder, Mode, ScalarError, ScalarOp, ScalarValue, evaluate};
use kiln_tensor::{DType, bf16, f16};

use super::emit;
use crate::session::Output;
use crate::testing::{Lanes, compile_lanes, host_levels, request};
use kiln_backend::IsaLevel;

/// Operations with bit-exact results.
const EXACT: &[ScalarOp] = &[
    ScalarOp::Add,
    ScalarOp::Sub,
    ScalarOp::Mul,
    ScalarOp::Div,
    ScalarOp::FloorDiv,
    ScalarOp::Rem,
    ScalarOp::FloorMod,
    ScalarOp::Min,
    ScalarOp::Max,
    ScalarOp::Neg,
    ScalarOp::Abs,
    ScalarOp::Sign,
    ScalarOp::Floor,
    ScalarOp::Ceil,
    ScalarOp::RoundEven,
    ScalarOp::Trunc,
    ScalarOp::Sqrt,
    ScalarOp::Eq,
    ScalarOp::Ne,
    ScalarOp::Lt,
    ScalarOp::Le,
    ScalarOp::Gt,
    ScalarOp::Ge,
    ScalarOp::And,
    ScalarOp::Or,
    ScalarOp::Xor,
    ScalarOp::Not,
    ScalarOp::BitAnd,
    ScalarOp::BitOr,
    ScalarOp::BitXor,
    ScalarOp::BitNot,
    ScalarOp::Shl,
    ScalarOp::Shr,
    ScalarOp::Select,
    ScalarOp::IsNan,
    ScalarOp::IsInf,
];

const LANES: [u32; 3] = [1, 4, 16];

#[test]
fn every_operation_is_as_the_interpreter_defines_it() {
    for level in host_levels() {
        for &op in EXACT {
            for dtypes in operand_types(op) {
                check(level, LANES[1], op, &dtypes);
            }
        }
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
            check(level, LANES[1], ScalarOp::Pow, &[dtype, dtype]);
        }
    }
}

#[test]
fn every_conversion_is_as_the_interpreter_defines_it() {
    for level in host_levels() {
        for from in DType::ALL {
            for to in DType::ALL {
                check(level, LANES[1], ScalarOp::Cast(to), &[from]);
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_lanes() {
    for level in host_levels() {
        for lanes in LANES {
            for dtype in [DType::F32, DType::F16, DType::I64, DType::U8] {
                check(level, lanes, ScalarOp::Div, &[dtype, dtype]);
                check(level, lanes, ScalarOp::Max, &[dtype, dtype]);
                check(level, lanes, ScalarOp::Cast(DType::I32), &[dtype]);
            }
        }
    }
}

/// Vectors of integers are divided as floats, whose quotients are rounded.
#[test]
fn quotients_that_are_just_short_of_an_integer_are_not_rounded_up() {
    for level in host_levels() {
        for (dtype, bits) in [(DType::I64, 53), (DType::I32, 31), (DType::I16, 15)] {
            let mut pairs = Vec::new();
            for divisor in [3, 7, 94_906_265, 94_906_267, 1 << 26, (1 << 29) - 3] {
                let largest = (1_i64 << bits) / divisor;
                for quotient in [1, 2, 3, largest - 1, largest] {
                    pairs.extend([-1, 0, 1].map(|short| (quotient * divisor + short, divisor)));
                }
            }
            let pairs = pairs
                .into_iter()
                .flat_map(|(a, b)| [(a, b), (-a, b), (a, -b)]);
            let most = i64::MAX >> (64 - dtype.bits());
            let fits = |&(a, b): &(i64, i64)| a.abs() <= most && b.abs() <= most;
            let pairs: Vec<(i64, i64)> = pairs.filter(fits).collect();
            let column = |pick: fn(&(i64, i64)) -> i64| -> Vec<u8> {
                let size = dtype.size_in_bytes();
                let bytes = pairs.iter().map(pick).map(i64::to_le_bytes);
                bytes.flat_map(|bytes| bytes[..size].to_vec()).collect()
            };
            let dtypes = [dtype, dtype];
            let compiled = Lanes::new(level, 8, &dtypes, &[dtype], |e, values| {
                vec![
                    emit(e, ScalarOp::Div, &dtypes, values)
                        .expect("it is known")
                        .value,
                ]
            });
            let found = compiled.run(&[&column(|pair| pair.0), &column(|pair| pair.1)]);
            let found = found[0].chunks(dtype.size_in_bytes());
            for (&(a, b), found) in pairs.iter().zip(found) {
                let expected = from_bits(dtype, (a / b) as u64);
                assert_eq!(value(dtype, found), expected, "{level} {a} / {b}");
            }
        }
    }
}

#[test]
fn min_and_max_are_the_same_at_every_vector_width() {
    for level in host_levels() {
        for lanes in [2, 8, 16] {
            for dtype in [DType::F32, DType::F64] {
                check(level, lanes, ScalarOp::Min, &[dtype, dtype]);
                check(level, lanes, ScalarOp::Max, &[dtype, dtype]);
            }
        }
    }
}

#[test]
fn every_16_bit_float_converts_as_defined() {
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for level in host_levels() {
        for dtype in [DType::F16, DType::BF16] {
            let widen = Lanes::new(level, 8, &[dtype], &[DType::F32], |e, values| {
                vec![super::half::widen(e, dtype, values[0])]
            });
            let narrow = Lanes::new(level, 8, &[DType::F32], &[dtype], |e, values| {
                vec![super::half::narrow(e, dtype, values[0])]
            });
            let wide = widen.run(&[&bits]).remove(0);
            let back = narrow.run(&[&wide]).remove(0);
            for ((bits, wide), back) in (0..=u16::MAX)
                .zip(wide.as_chunks::<4>().0)
                .zip(back.as_chunks::<2>().0)
            {
                let expected = match dtype {
                    DType::F16 => f16::from_bits(bits).to_f32(),
                    _ => bf16::from_bits(bits).to_f32(),
                };
                let wide = f32::from_le_bytes(*wide);
                assert!(
                    wide.to_bits() == expected.to_bits() || (wide.is_nan() && expected.is_nan()),
                    "{level} {dtype} {bits:#x}: {wide} for {expected}"
                );
                assert!(
                    u16::from_le_bytes(*back) == bits || expected.is_nan(),
                    "{level} {dtype} {bits:#x} back"
                );
            }
        }
    }
}

#[test]
fn functions_of_16_bit_floats_are_near_their_definition() {
    let inputs: Vec<u16> = (0..=u16::MAX).step_by(7).collect();
    let bits: Vec<u8> = inputs.iter().flat_map(|x| x.to_le_bytes()).collect();
    for level in host_levels() {
        for dtype in [DType::F16, DType::BF16] {
            for op in [
                ScalarOp::Exp,
                ScalarOp::Tanh,
                ScalarOp::Erf,
                ScalarOp::Log,
                ScalarOp::Sin,
            ] {
                let compiled = Lanes::new(level, 8, &[dtype], &[dtype], |e, values| {
                    vec![emit(e, op, &[dtype], values).expect("it is known").value]
                });
                let results = compiled.run(&[&bits]).remove(0);
                for (&x, found) in inputs.iter().zip(results.as_chunks::<2>().0) {
                    let x = from_bits(dtype, u64::from(x));
                    let expected = define(op, &[dtype], &[x]).expect("it has a value");
                    let expected =
                        i64::from(u16::from_le_bytes([bytes(expected)[0], bytes(expected)[1]]));
                    let found_bits = i64::from(u16::from_le_bytes(*found));
                    let found = value(dtype, found);
                    assert!(
                        (expected - found_bits).abs() <= 1
                            || is_nan(found) && is_nan(from_bits(dtype, expected as u64)),
                        "{level} {op:?} {x:?}: {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_operation_calls_a_library() {
    for level in IsaLevel::ALL {
        for &op in ScalarOp::ALL {
            for dtypes in operand_types(op) {
                compile_op(level, 8, op, &dtypes);
            }
        }
        for from in DType::ALL {
            for to in DType::ALL {
                compile_op(level, 8, ScalarOp::Cast(to), &[from]);
            }
        }
    }
}

fn compile_op(level: IsaLevel, lanes: u32, op: ScalarOp, dtypes: &[DType]) {
    let out = op.signature().result_type(dtypes).expect("these fit");
    let object = compile_lanes(
        request(level, Output::Object),
        lanes,
        dtypes,
        &[out],
        |e, values| vec![emit(e, op, dtypes, values).expect("it is known").value],
    );
    assert!(object.is_ok(), "{level} {op:?} {dtypes:?}: {object:?}");
}

fn operand_types(op: ScalarOp) -> Vec<Vec<DType>> {
    let mut fitting = Vec::new();
    for dtype in DType::ALL {
        let mut dtypes = vec![dtype; op.arity()];
        if op == ScalarOp::Select {
            dtypes[0] = DType::Bool;
        }
        if op.signature().result_type(&dtypes).is_some() {
            fitting.push(dtypes);
        }
    }
    fitting
}

/// Every combination of the interesting values of the operands' dtypes.
fn check(level: IsaLevel, lanes: u32, op: ScalarOp, dtypes: &[DType]) {
    let out = op.signature().result_type(dtypes).expect("these fit");
    let compiled = Lanes::new(level, lanes, dtypes, &[out, DType::Bool], |e, values| {
        let outcome = emit(e, op, dtypes, values).expect("it is known");
        let none = e.bool_of(lanes, false);
        vec![outcome.value, outcome.fault.unwrap_or(none)]
    });
    let mut rows: Vec<Vec<ScalarValue>> = vec![Vec::new()];
    for &dtype in dtypes {
        let values = interesting(dtype);
        rows = rows
            .into_iter()
            .flat_map(|row| {
                values.iter().map(move |&value| {
                    let mut row = row.clone();
                    row.push(value);
                    row
                })
            })
            .collect();
    }
    let columns: Vec<Vec<u8>> = (0..dtypes.len())
        .map(|operand| rows.iter().flat_map(|row| bytes(row[operand])).collect())
        .collect();
    let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
    let results = compiled.run(&columns);
    for (index, row) in rows.iter().enumerate() {
        let fault = results[1][index] != 0;
        let size = out.size_in_bytes();
        let found = &results[0][index * size..(index + 1) * size];
        match define(op, dtypes, row) {
            Ok(expected) => {
                assert!(!fault, "{level} {op:?} {row:?}: a fault for {expected:?}");
                let same =
                    bytes(expected) == found || (is_nan(expected) && is_nan(value(out, found)));
                assert!(
                    same,
                    "{level} {op:?} {row:?}: {:?} for {expected:?}",
                    value(out, found)
                );
            }
            Err(_) => assert!(fault, "{level} {op:?} {row:?}: expected a fault"),
        }
    }
}

/// The interpreter's definition; an error is a fault.
fn define(op: ScalarOp, dtypes: &[DType], row: &[ScalarValue]) -> Result<ScalarValue, ScalarError> {
    let mut builder = ExprBuilder::new(dtypes.len());
    let inputs = builder.inputs();
    let result = builder.apply(op, &inputs);
    let expr = builder.finish(result).expect("it builds");
    evaluate(&expr, row, Mode::Declared)
}

fn is_nan(value: ScalarValue) -> bool {
    value.dtype().is_float() && value.to_f64().is_nan()
}

fn bytes(value: ScalarValue) -> Vec<u8> {
    match value {
        ScalarValue::F64(v) => v.to_le_bytes().to_vec(),
        ScalarValue::F32(v) => v.to_le_bytes().to_vec(),
        ScalarValue::F16(v) => v.to_le_bytes().to_vec(),
        ScalarValue::BF16(v) => v.to_le_bytes().to_vec(),
        ScalarValue::I64(v) => v.to_le_bytes().to_vec(),
        ScalarValue::I32(v) => v.to_le_bytes().to_vec(),
        ScalarValue::I16(v) => v.to_le_bytes().to_vec(),
        ScalarValue::I8(v) => v.to_le_bytes().to_vec(),
        ScalarValue::U64(v) => v.to_le_bytes().to_vec(),
        ScalarValue::U32(v) => v.to_le_bytes().to_vec(),
        ScalarValue::U16(v) => v.to_le_bytes().to_vec(),
        ScalarValue::U8(v) => v.to_le_bytes().to_vec(),
        ScalarValue::Bool(v) => vec![u8::from(v)],
        other => panic!("{other:?}"),
    }
}

fn value(dtype: DType, bytes: &[u8]) -> ScalarValue {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    from_bits(dtype, u64::from_le_bytes(wide))
}

fn from_bits(dtype: DType, bits: u64) -> ScalarValue {
    match dtype {
        DType::F64 => ScalarValue::F64(f64::from_bits(bits)),
        DType::F32 => ScalarValue::F32(f32::from_bits(bits as u32)),
        DType::F16 => ScalarValue::F16(f16::from_bits(bits as u16)),
        DType::BF16 => ScalarValue::BF16(bf16::from_bits(bits as u16)),
        DType::I64 => ScalarValue::I64(bits as i64),
        DType::I32 => ScalarValue::I32(bits as i32),
        DType::I16 => ScalarValue::I16(bits as i16),
        DType::I8 => ScalarValue::I8(bits as i8),
        DType::U64 => ScalarValue::U64(bits),
        DType::U32 => ScalarValue::U32(bits as u32),
        DType::U16 => ScalarValue::U16(bits as u16),
        DType::U8 => ScalarValue::U8(bits as u8),
        DType::Bool => ScalarValue::Bool(bits != 0),
        other => panic!("{other}"),
    }
}

/// Zeros, ones, limits of every dtype, ties, subnormals, infinities, NaN, and their neighbours.
fn interesting(dtype: DType) -> Vec<ScalarValue> {
    if dtype == DType::Bool {
        return vec![ScalarValue::Bool(false), ScalarValue::Bool(true)];
    }
    if dtype.is_integer() {
        let top = 1u64 << (dtype.bits() - 1);
        let mut bits = vec![0, 1, 2, 3, 7, 8, 15, 31, 63, 64, 100, 127, 128, 200];
        bits.extend([
            top - 1,
            top,
            top + 1,
            top / 2,
            top / 3,
            u64::MAX,
            u64::MAX - 1,
            u64::MAX - 6,
        ]);
        if dtype.bits() > 32 {
            bits.extend([
                1 << 24,
                (1 << 24) + 1,
                (1 << 53) - 1,
                1 << 53,
                (1 << 53) + 1,
                (1 << 62) + (1 << 54) + 1,
            ]);
            bits.extend([
                !0 << 53,
                (!0 << 53) - 1,
                (!0 << 54) + 3,
                65519,
                65520,
                (1 << 54) - 1,
            ]);
        }
        let mut values: Vec<ScalarValue> = bits
            .into_iter()
            .map(|bits| from_bits(dtype, bits))
            .collect();
        values.dedup();
        return values;
    }
    let mut numbers = vec![
        0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.3, 7.0, 10.5, 127.5, 128.0, 255.0,
    ];
    numbers.extend([
        256.0, 1e-3, 1e-8, 6e-8, 3e-5, 2048.5, 32767.0, 65519.0, 65520.0, 1e-40, 1e-310,
    ]);
    numbers.extend([
        8_388_607.5,
        8_388_609.0,
        2f64.powi(31),
        2f64.powi(32),
        2f64.powi(52) + 0.5,
    ]);
    numbers.extend([
        2f64.powi(63),
        2f64.powi(64),
        1e19,
        3e38,
        3.5e38,
        1e300,
        f64::INFINITY,
    ]);
    numbers.extend([
        1.0 + 2f64.powi(-11) + 2f64.powi(-40),
        0.1,
        f64::MIN_POSITIVE,
        f64::NAN,
    ]);
    numbers
        .into_iter()
        .flat_map(|number| [number, -number])
        .filter_map(|number| ScalarValue::from_number(number, dtype))
        .collect()
}
