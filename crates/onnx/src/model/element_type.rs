//! The element types of ONNX, supported or not.
//!
//! A value of an unsupported type is described, not rejected: the error occurs when something needs its elements.

use std::fmt;

use kiln_tensor::DType;

use super::NarrowType;

/// An ONNX element type, `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ElementType {
    /// A supported type.
    Supported(DType),
    /// A type that is stored as a wider one.
    Narrow(NarrowType),
    /// An unsupported type, by its ONNX number.
    Unsupported(i32),
}

impl ElementType {
    /// The type with the given ONNX number.
    pub fn from_number(number: i32) -> Self {
        Self::Supported(match number {
            1 => DType::F32,
            2 => DType::U8,
            3 => DType::I8,
            4 => DType::U16,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::Bool,
            10 => DType::F16,
            11 => DType::F64,
            12 => DType::U32,
            13 => DType::U64,
            16 => DType::BF16,
            other => {
                return NarrowType::from_number(other)
                    .map_or(Self::Unsupported(other), Self::Narrow);
            }
        })
    }

    /// The dtype in which elements of this type are stored, if there is one.
    pub fn dtype(self) -> Option<DType> {
        match self {
            Self::Supported(dtype) => Some(dtype),
            Self::Narrow(narrow) => Some(narrow.kept_in()),
            Self::Unsupported(_) => None,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self {
            Self::Supported(dtype) => return write!(formatter, "{dtype}"),
            Self::Narrow(narrow) => return write!(formatter, "{narrow}"),
            Self::Unsupported(number) => *number,
        };
        formatter.write_str(match number {
            0 => "undefined",
            8 => "string",
            14 => "complex64",
            15 => "complex128",
            27 => "f6e2m3",
            28 => "f6e3m2",
            _ => return write!(formatter, "unknown({number})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_map_to_types() {
        let names: Vec<String> = (0..=29)
            .map(|number| ElementType::from_number(number).to_string())
            .collect();
        let expected = "undefined f32 u8 i8 u16 i16 i32 i64 string bool f16 f64 u32 u64 complex64 complex128 bf16 \
                        f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz u4 i4 f4e2m1 f8e8m0 u2 i2 f6e2m3 f6e3m2 unknown(29)";
        assert_eq!(names.join(" "), expected);
        assert_eq!(ElementType::from_number(-1).dtype(), None);
        assert_eq!(ElementType::from_number(10).dtype(), Some(DType::F16));
    }
}
