//! Numbers as written in programs, and the element types that can represent them.
//!
//! Invariant: a number becomes a constant only where the element type can represent it: an integer type exactly, a float
//! type after rounding, but without overflowing to infinity.

use kiln_tensor::{DType, Tensor};
use std::fmt;

/// A number as a program wrote it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A number with a fraction, even if that is 0.
    Float(f64),
    /// A number without a fraction.
    Integer(i64),
}

impl Number {
    /// The code of errors about a number that an element type cannot represent.
    pub const NOT_HELD: &str = "E0804";

    /// A tensor of rank 0 with this number; `None` if the type cannot represent it.
    pub fn tensor(self, dtype: DType) -> Option<Tensor> {
        Some(match dtype {
            DType::F64 => Tensor::scalar(self.float()),
            DType::F32 => Tensor::scalar(self.rounded(|x| x as f32, f32::is_infinite)?),
            DType::F16 => Tensor::scalar(self.rounded(half::f16::from_f64, |x| x.is_infinite())?),
            DType::BF16 => Tensor::scalar(self.rounded(half::bf16::from_f64, |x| x.is_infinite())?),
            DType::I64 => Tensor::scalar(i64::try_from(self.integer()?).ok()?),
            DType::I32 => Tensor::scalar(i32::try_from(self.integer()?).ok()?),
            DType::I16 => Tensor::scalar(i16::try_from(self.integer()?).ok()?),
            DType::I8 => Tensor::scalar(i8::try_from(self.integer()?).ok()?),
            DType::U64 => Tensor::scalar(u64::try_from(self.integer()?).ok()?),
            DType::U32 => Tensor::scalar(u32::try_from(self.integer()?).ok()?),
            DType::U16 => Tensor::scalar(u16::try_from(self.integer()?).ok()?),
            DType::U8 => Tensor::scalar(u8::try_from(self.integer()?).ok()?),
            DType::Bool => match self.integer()? {
                0 => Tensor::scalar(false),
                1 => Tensor::scalar(true),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn float(self) -> f64 {
        match self {
            Self::Float(number) => number,
            Self::Integer(number) => number as f64,
        }
    }

    /// The number as a float of a different type, unless a finite one overflows.
    fn rounded<F: Copy>(
        self,
        round: impl FnOnce(f64) -> F,
        is_infinite: impl FnOnce(F) -> bool,
    ) -> Option<F> {
        let number = self.float();
        let rounded = round(number);
        (number.is_infinite() || !is_infinite(rounded)).then_some(rounded)
    }

    /// The number without a fraction. Every integer type is within the range of `i128`, and so is the cast value.
    fn integer(self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(number.into()),
            Self::Float(number) => {
                let is_integer = number.fract() == 0.0 && number.abs() < 2_f64.powi(64);
                is_integer.then_some(number as i128)
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Integer(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(dtype: DType, number: Number) -> bool {
        number.tensor(dtype).is_some()
    }

    #[test]
    fn integers_hold_exactly_representable_values() {
        use Number::{Float, Integer};
        for (dtype, least, most) in [
            (DType::I8, -128, 127),
            (DType::U8, 0, 255),
            (DType::I32, i64::from(i32::MIN), i64::from(i32::MAX)),
            (DType::U32, 0, i64::from(u32::MAX)),
        ] {
            assert!(holds(dtype, Integer(least)) && holds(dtype, Float(most as f64)));
            assert!(!holds(dtype, Integer(least - 1)) && !holds(dtype, Float(most as f64 + 1.0)));
            for number in [0.5, 2.5, f64::NAN, f64::INFINITY] {
                assert!(!holds(dtype, Float(number)), "{dtype} {number}");
            }
        }
        assert!(!holds(DType::I64, Float(2_f64.powi(63))));
        assert!(holds(DType::U64, Float(2_f64.powi(63))));
        assert!(!holds(DType::U64, Float(2_f64.powi(64))) && !holds(DType::U64, Integer(-1)));
        let exact = Integer((1 << 53) + 1).tensor(DType::I64);
        assert_eq!(
            exact.and_then(|tensor| tensor.to_vec::<i64>().ok()),
            Some(vec![(1 << 53) + 1])
        );
    }

    #[test]
    fn floats_round_but_do_not_overflow_and_a_bool_is_0_or_1() {
        use Number::{Float, Integer};
        assert!(holds(DType::F16, Float(0.1)) && holds(DType::F32, Integer(i64::MAX)));
        assert!(!holds(DType::F16, Float(1e6)) && !holds(DType::F32, Float(1e39)));
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            assert!(holds(dtype, Float(f64::NEG_INFINITY)) && holds(dtype, Float(f64::NAN)));
        }
        assert!(holds(DType::Bool, Integer(1)) && holds(DType::Bool, Float(0.0)));
        assert!(!holds(DType::Bool, Integer(2)) && !holds(DType::Bool, Float(0.5)));
    }
}
