//! Dtypes and literals in C.

use kiln_scalar::ScalarValue;
use kiln_tensor::DType;

/// The C type of a dtype's values and elements.
pub(super) fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::F16 => "k_f16",
        DType::BF16 => "k_bf16",
        DType::I64 => "k_i64",
        DType::I32 => "int",
        DType::I16 => "short",
        DType::I8 => "k_i8",
        DType::U64 => "k_u64",
        DType::U32 => "k_u32",
        DType::U16 => "k_u16",
        DType::U8 => "k_u8",
        DType::Bool => "bool",
        other => unreachable!("no tensor has elements of {other}"),
    }
}

/// A value in C, exactly.
pub(super) fn literal(value: ScalarValue) -> String {
    match value {
        ScalarValue::F64(value) if value.is_finite() => format!("{value:?}"),
        ScalarValue::F64(value) => format!("k_bits_double({:#x}ull)", value.to_bits()),
        ScalarValue::F32(value) if value.is_finite() => format!("{value:?}f"),
        ScalarValue::F32(value) => format!("k_bits_float({:#x}u)", value.to_bits()),
        ScalarValue::F16(value) => format!("k_f16{{{:#x}}}", value.to_bits()),
        ScalarValue::BF16(value) => format!("k_bf16{{{:#x}}}", value.to_bits()),
        ScalarValue::I64(i64::MIN) => "(-9223372036854775807ll - 1)".to_owned(),
        ScalarValue::I64(value) => format!("{value}ll"),
        ScalarValue::I32(i32::MIN) => "(-2147483647 - 1)".to_owned(),
        ScalarValue::I32(value) => value.to_string(),
        ScalarValue::I16(value) => format!("(short){value}"),
        ScalarValue::I8(value) => format!("(k_i8){value}"),
        ScalarValue::U64(value) => format!("{value}ull"),
        ScalarValue::U32(value) => format!("{value}u"),
        ScalarValue::U16(value) => format!("(k_u16){value}"),
        ScalarValue::U8(value) => format!("(k_u8){value}"),
        ScalarValue::Bool(value) => value.to_string(),
        other => unreachable!("no element is {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_exact_at_the_ends_of_each_type() {
        let texts = [
            (ScalarValue::F32(0.1), "0.1f"),
            (ScalarValue::F32(1e-40), "1e-40f"),
            (ScalarValue::F32(-0.0), "-0.0f"),
            (ScalarValue::F32(f32::INFINITY), "k_bits_float(0x7f800000u)"),
            (ScalarValue::I64(i64::MIN), "(-9223372036854775807ll - 1)"),
            (ScalarValue::I32(i32::MIN), "(-2147483647 - 1)"),
            (ScalarValue::U64(u64::MAX), "18446744073709551615ull"),
            (ScalarValue::I8(-128), "(k_i8)-128"),
        ];
        for (value, text) in texts {
            assert_eq!(literal(value), text);
        }
    }
}
