//! One element of any dtype.

use std::fmt;
use std::hash::{Hash, Hasher};

use kiln_tensor::{DType, bf16, f16};
use serde::{Deserialize, Serialize};

use crate::rounding::{bf16_from_f64, f16_from_f64};

/// A number or truth value with its dtype.
///
/// Equality is by dtype and bits: a NaN equals itself, and 0.0 differs from -0.0.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ScalarValue {
    /// An `f64`.
    F64(f64),
    /// An `f32`.
    F32(f32),
    /// An `f16`.
    F16(f16),
    /// A `bf16`.
    BF16(bf16),
    /// An `i64`.
    I64(i64),
    /// An `i32`.
    I32(i32),
    /// An `i16`.
    I16(i16),
    /// An `i8`.
    I8(i8),
    /// A `u64`.
    U64(u64),
    /// A `u32`.
    U32(u32),
    /// A `u16`.
    U16(u16),
    /// A `u8`.
    U8(u8),
    /// A `bool`.
    Bool(bool),
}

/// Runs a block with `$v` bound to the value inside, for any type.
macro_rules! for_value {
    ($value:expr, $v:ident => $body:expr) => {
        match $value {
            ScalarValue::F64($v) => $body,
            ScalarValue::F32($v) => $body,
            ScalarValue::F16($v) => $body,
            ScalarValue::BF16($v) => $body,
            ScalarValue::I64($v) => $body,
            ScalarValue::I32($v) => $body,
            ScalarValue::I16($v) => $body,
            ScalarValue::I8($v) => $body,
            ScalarValue::U64($v) => $body,
            ScalarValue::U32($v) => $body,
            ScalarValue::U16($v) => $body,
            ScalarValue::U8($v) => $body,
            ScalarValue::Bool($v) => $body,
        }
    };
}

impl ScalarValue {
    /// The value's dtype.
    pub fn dtype(self) -> DType {
        fn dtype_of<T: kiln_tensor::Element>(_: T) -> DType {
            T::DTYPE
        }
        for_value!(self, v => dtype_of(v))
    }

    /// A number in a dtype: rounded once for floats. `None` for an integer dtype that does not represent exactly this
    /// number, and for `bool`.
    pub fn from_number(number: f64, dtype: DType) -> Option<ScalarValue> {
        macro_rules! exact {
            ($variant:ident, $ty:ty) => {{
                let converted = number as $ty;
                // The second test is for 2^63 and 2^64, which saturate and round back to themselves.
                let fits = converted as f64 == number && converted as i128 == number as i128;
                fits.then_some(ScalarValue::$variant(converted))
            }};
        }
        match dtype {
            DType::F64 => Some(ScalarValue::F64(number)),
            DType::F32 => Some(ScalarValue::F32(number as f32)),
            DType::F16 => Some(ScalarValue::F16(f16_from_f64(number))),
            DType::BF16 => Some(ScalarValue::BF16(bf16_from_f64(number))),
            DType::I64 => exact!(I64, i64),
            DType::I32 => exact!(I32, i32),
            DType::I16 => exact!(I16, i16),
            DType::I8 => exact!(I8, i8),
            DType::U64 => exact!(U64, u64),
            DType::U32 => exact!(U32, u32),
            DType::U16 => exact!(U16, u16),
            DType::U8 => exact!(U8, u8),
            _ => None,
        }
    }

    /// Zero, or `false`.
    pub fn zero(dtype: DType) -> ScalarValue {
        kiln_tensor::match_dtype!(dtype, T => ScalarValue::from(<T as Default>::default()))
    }

    /// The value as an `f64`; 64-bit integers may be rounded, `true` is 1.
    pub fn to_f64(self) -> f64 {
        match self {
            ScalarValue::F64(v) => v,
            ScalarValue::F32(v) => f64::from(v),
            ScalarValue::F16(v) => v.to_f64(),
            ScalarValue::BF16(v) => v.to_f64(),
            ScalarValue::I64(v) => v as f64,
            ScalarValue::I32(v) => f64::from(v),
            ScalarValue::I16(v) => f64::from(v),
            ScalarValue::I8(v) => f64::from(v),
            ScalarValue::U64(v) => v as f64,
            ScalarValue::U32(v) => f64::from(v),
            ScalarValue::U16(v) => f64::from(v),
            ScalarValue::U8(v) => f64::from(v),
            ScalarValue::Bool(v) => f64::from(u8::from(v)),
        }
    }

    /// The bits, zero-extended.
    fn bits(self) -> u64 {
        match self {
            ScalarValue::F64(v) => v.to_bits(),
            ScalarValue::F32(v) => u64::from(v.to_bits()),
            ScalarValue::F16(v) => u64::from(v.to_bits()),
            ScalarValue::BF16(v) => u64::from(v.to_bits()),
            ScalarValue::I64(v) => v as u64,
            ScalarValue::I32(v) => u64::from(v as u32),
            ScalarValue::I16(v) => u64::from(v as u16),
            ScalarValue::I8(v) => u64::from(v as u8),
            ScalarValue::U64(v) => v,
            ScalarValue::U32(v) => u64::from(v),
            ScalarValue::U16(v) => u64::from(v),
            ScalarValue::U8(v) => u64::from(v),
            ScalarValue::Bool(v) => u64::from(v),
        }
    }
}

impl PartialEq for ScalarValue {
    fn eq(&self, other: &ScalarValue) -> bool {
        self.dtype() == other.dtype() && self.bits() == other.bits()
    }
}

impl Eq for ScalarValue {}

impl Hash for ScalarValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dtype().hash(state);
        self.bits().hash(state);
    }
}

/// Prints the shortest text that reads back as the same value: `1.0`, `1e-12`, `-inf`, `3`, `true`.
impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScalarValue::F64(v) => float(f, *v),
            ScalarValue::F32(v) => float(f, *v),
            ScalarValue::F16(v) => float(f, v.to_f32()),
            ScalarValue::BF16(v) => float(f, v.to_f32()),
            other => for_value!(other, v => fmt::Display::fmt(v, f)),
        }
    }
}

/// `Debug` of a float is its shortest form, with a point or an exponent.
fn float<T: fmt::Debug + PartialEq>(f: &mut fmt::Formatter<'_>, value: T) -> fmt::Result {
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    if value != value {
        f.write_str("nan")
    } else {
        write!(f, "{value:?}")
    }
}

macro_rules! conversions {
    ($($variant:ident $ty:ty,)*) => {
        $(
            impl From<$ty> for ScalarValue {
                fn from(value: $ty) -> ScalarValue {
                    ScalarValue::$variant(value)
                }
            }
        )*
    };
}

conversions! {
    F64 f64, F32 f32, F16 f16, BF16 bf16,
    I64 i64, I32 i32, I16 i16, I8 i8,
    U64 u64, U32 u32, U16 u16, U8 u8,
    Bool bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_is_by_bits() {
        assert_eq!(ScalarValue::F32(f32::NAN), ScalarValue::F32(f32::NAN));
        assert_ne!(ScalarValue::F64(0.0), ScalarValue::F64(-0.0));
        assert_ne!(ScalarValue::I32(1), ScalarValue::U32(1));
    }

    #[test]
    fn numbers_fit_integers_exactly_or_not_at_all() {
        let fits = |number, dtype| ScalarValue::from_number(number, dtype);
        assert_eq!(fits(-128.0, DType::I8), Some(ScalarValue::I8(-128)));
        assert_eq!(fits(128.0, DType::I8), None);
        assert_eq!(fits(0.5, DType::I64), None);
        assert_eq!(fits(-1.0, DType::U8), None);
        assert_eq!(fits(2f64.powi(63), DType::I64), None);
        assert_eq!(
            fits(-(2f64.powi(63)), DType::I64),
            Some(ScalarValue::I64(i64::MIN))
        );
        assert_eq!(fits(2f64.powi(64), DType::U64), None);
        assert_eq!(fits(f64::NAN, DType::I32), None);
        assert_eq!(fits(1.0, DType::Bool), None);
        assert_eq!(fits(0.1, DType::F32), Some(ScalarValue::F32(0.1)));
        assert_eq!(
            fits(0.1, DType::BF16),
            Some(ScalarValue::BF16(bf16::from_f32(0.1)))
        );
    }

    #[test]
    fn every_dtype_has_a_zero_that_prints() {
        let printed: Vec<String> = DType::ALL
            .iter()
            .map(|&dtype| ScalarValue::zero(dtype).to_string())
            .collect();
        assert_eq!(printed.join(" "), "0.0 0.0 0.0 0.0 0 0 0 0 0 0 0 0 false");
        for dtype in DType::ALL {
            assert_eq!(ScalarValue::zero(dtype).dtype(), dtype);
            assert_eq!(ScalarValue::zero(dtype).to_f64(), 0.0);
        }
    }

    #[test]
    fn floats_print_the_shortest_text_that_reads_back() {
        assert_eq!(ScalarValue::F32(0.1).to_string(), "0.1");
        assert_eq!(ScalarValue::F64(1e300).to_string(), "1e300");
        assert_eq!(ScalarValue::F16(f16::NEG_INFINITY).to_string(), "-inf");
        assert_eq!(ScalarValue::BF16(bf16::NAN).to_string(), "nan");
    }
}
