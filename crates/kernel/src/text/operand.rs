//! Operands of the reader: nodes, and numbers that take the dtype of the other operand.

use std::fmt;

use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::text::Span;
use kiln_tensor::DType;

use crate::form::NodeId;

/// An operand as it was read.
#[derive(Clone, Debug)]
pub(super) enum ParsedOperand {
    Node(NodeId),
    /// A number without a dtype.
    Number(Number, Span),
}

/// A number as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    /// A number with a fraction or an exponent, or `inf` or `nan`; with its sign.
    Float(String),
}

impl Number {
    /// The default dtype.
    pub(super) fn usual_dtype(&self) -> DType {
        match self {
            Number::Integer(_) => DType::I64,
            Number::Float(_) => DType::F32,
        }
    }

    /// The number in a dtype. `None` if it is not representable: a fraction in an integer dtype, a number beyond the
    /// maximum.
    pub(super) fn in_dtype(&self, dtype: DType) -> Option<ScalarValue> {
        match self {
            Number::Integer(value) => integer(*value, dtype),
            Number::Float(text) => float(text, dtype),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(f, "{value}"),
            Number::Float(text) => f.write_str(text),
        }
    }
}

fn integer(value: i128, dtype: DType) -> Option<ScalarValue> {
    Some(match dtype {
        DType::I64 => i64::try_from(value).ok()?.into(),
        DType::I32 => i32::try_from(value).ok()?.into(),
        DType::I16 => i16::try_from(value).ok()?.into(),
        DType::I8 => i8::try_from(value).ok()?.into(),
        DType::U64 => u64::try_from(value).ok()?.into(),
        DType::U32 => u32::try_from(value).ok()?.into(),
        DType::U16 => u16::try_from(value).ok()?.into(),
        DType::U8 => u8::try_from(value).ok()?.into(),
        _ => return float(&value.to_string(), dtype),
    })
}

fn float(text: &str, dtype: DType) -> Option<ScalarValue> {
    let value = match dtype {
        // Read in its own dtype, so that it is rounded once.
        DType::F32 => ScalarValue::F32(if text == "nan" {
            f32::NAN
        } else {
            text.parse().ok()?
        }),
        _ if dtype.is_float() => {
            let number = if text == "nan" {
                f64::NAN
            } else {
                text.parse().ok()?
            };
            ScalarValue::from_number(number, dtype)?
        }
        _ => return None,
    };
    let is_infinite = value.to_f64().is_infinite();
    (!is_infinite || text.ends_with("inf")).then_some(value)
}
