//! Element types and their names in every text form.
//!
//! A dtype is measured in bits, so that sub-byte types can be added without changing anything here. Names that later
//! versions will define (`string`, 8-bit floats, 4- and 2-bit integers) are reserved: they parse to a specific error.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::TensorError;

/// The type of a tensor's elements.
///
/// Names are those of the text form (`f32`, `i64`, `bool`). Reserved for later and rejected today: `string`, `f8e4m3`,
/// `f8e4m3fn`, `f8e4m3fnuz`, `f8e5m2`, `f8e5m2fnuz`, `f8e8m0`, `f4e2m1`, `i4`, `u4`, `i2`, `u2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32: 8 bits of exponent, 7 of fraction.
    BF16,
    /// Two's complement, 64 bits.
    I64,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 8 bits.
    I8,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 8 bits.
    U8,
    /// A truth value, kept in one byte that is 0 or 1.
    Bool,
}

const RESERVED: &[&str] = &[
    "string",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f8e8m0",
    "f4e2m1",
    "i4",
    "u4",
    "i2",
    "u2",
];

impl DType {
    /// Every dtype, floats first, widest first.
    pub const ALL: [DType; 13] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// The number of bits of one element in memory (8 for `bool`).
    pub const fn bits(self) -> u32 {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 64,
            DType::F32 | DType::I32 | DType::U32 => 32,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 16,
            DType::I8 | DType::U8 | DType::Bool => 8,
        }
    }

    /// The number of bytes of one element in memory.
    pub const fn size_in_bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Whether this is an integer type, signed or not; `bool` is not.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// Whether this is a signed integer or a float.
    pub const fn is_signed(self) -> bool {
        !matches!(
            self,
            DType::U64 | DType::U32 | DType::U16 | DType::U8 | DType::Bool
        )
    }

    /// Whether `name` is reserved for a dtype of a later version.
    pub fn is_reserved_name(name: &str) -> bool {
        RESERVED.contains(&name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = TensorError;

    fn from_str(name: &str) -> Result<DType, TensorError> {
        if let Some(dtype) = DType::ALL.into_iter().find(|dtype| dtype.name() == name) {
            Ok(dtype)
        } else if DType::is_reserved_name(name) {
            Err(TensorError::ReservedDType {
                name: name.to_owned(),
            })
        } else {
            Err(TensorError::UnknownDType {
                name: name.chars().take(32).collect(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
            assert_eq!(dtype.size_in_bytes() * 8, dtype.bits() as usize);
            assert_eq!(
                serde_json::to_string(&dtype).unwrap(),
                format!("\"{dtype}\"")
            );
        }
    }

    #[test]
    fn each_dtype_is_float_integer_or_bool() {
        for dtype in DType::ALL {
            let kinds = [dtype.is_float(), dtype.is_integer(), dtype == DType::Bool];
            assert_eq!(kinds.iter().filter(|&&kind| kind).count(), 1, "{dtype}");
        }
        assert!(DType::I8.is_signed() && DType::BF16.is_signed());
        assert!(!DType::U64.is_signed() && !DType::Bool.is_signed());
    }

    #[test]
    fn reserved_and_unknown_names_are_distinguished() {
        let reserved = "f8e4m3".parse::<DType>().unwrap_err();
        assert_eq!(
            reserved.to_string(),
            "dtype `f8e4m3` is reserved for a later version"
        );
        assert_eq!(reserved.code(), "E0181");
        let unknown = "float".parse::<DType>().unwrap_err();
        assert_eq!(unknown.code(), "E0180");
        assert!(
            unknown
                .to_string()
                .starts_with("unknown dtype `float`, expected one of f64, f32")
        );
        assert!(
            "\u{1b}[2J"
                .parse::<DType>()
                .unwrap_err()
                .to_string()
                .contains("\\u{1b}")
        );
    }
}
