//! Sub-byte element types, and 8-bit floats: the values of their codes.
//!
//! Kiln computes with none of them. A tensor of such a type is stored as a wider one that represents each of its values
//! exactly, converted when it is read; a cast rounds to the type's values.

use std::fmt;

use kiln_tensor::DType;

/// An ONNX element type that is stored as a wider one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NarrowType {
    /// 4 bits of exponent, 3 of fraction; no infinities.
    F8E4M3FN,
    /// As the former, with one zero; its NaN is where minus zero would be.
    F8E4M3FNUZ,
    /// 5 bits of exponent, 2 of fraction, as in IEEE 754.
    F8E5M2,
    /// As the former, with one zero and no infinities.
    F8E5M2FNUZ,
    /// 8 bits of exponent only: powers of two.
    F8E8M0,
    /// 2 bits of exponent, 1 of fraction; neither infinities nor NaN.
    F4E2M1,
    /// Two's complement, 4 bits.
    I4,
    /// Unsigned, 4 bits.
    U4,
    /// Two's complement, 2 bits.
    I2,
    /// Unsigned, 2 bits.
    U2,
}

/// The values of a narrow float type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatFormat {
    /// Bits of the fraction.
    pub(crate) fraction: i32,
    /// The exponent of the smallest normal number.
    pub(crate) least_exponent: i32,
    /// The maximum finite number.
    pub(crate) largest: f64,
    /// Whether larger numbers are infinite.
    pub(crate) has_infinities: bool,
    /// Whether there is a minus zero.
    pub(crate) has_minus_zero: bool,
    /// Whether there is a NaN.
    pub(crate) has_nan: bool,
}

impl NarrowType {
    const ALL: [Self; 10] = [
        Self::F8E4M3FN,
        Self::F8E4M3FNUZ,
        Self::F8E5M2,
        Self::F8E5M2FNUZ,
        Self::F8E8M0,
        Self::F4E2M1,
        Self::I4,
        Self::U4,
        Self::I2,
        Self::U2,
    ];

    /// The type with the given ONNX number.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|narrow| narrow.number() == number)
    }

    /// The ONNX number.
    pub fn number(self) -> i32 {
        match self {
            Self::F8E4M3FN => 17,
            Self::F8E4M3FNUZ => 18,
            Self::F8E5M2 => 19,
            Self::F8E5M2FNUZ => 20,
            Self::U4 => 21,
            Self::I4 => 22,
            Self::F4E2M1 => 23,
            Self::F8E8M0 => 24,
            Self::U2 => 25,
            Self::I2 => 26,
        }
    }

    /// The dtype in which its values are stored.
    pub fn kept_in(self) -> DType {
        match self {
            Self::F8E4M3FN | Self::F8E4M3FNUZ | Self::F8E5M2 | Self::F8E5M2FNUZ | Self::F4E2M1 => {
                DType::F16
            }
            Self::F8E8M0 => DType::F32,
            Self::I4 | Self::I2 => DType::I8,
            Self::U4 | Self::U2 => DType::U8,
        }
    }

    /// Bits of an element in a file; several share a byte, the first in its low bits.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::F4E2M1 | Self::I4 | Self::U4 => 4,
            Self::I2 | Self::U2 => 2,
            _ => 8,
        }
    }

    /// The values, if it is a float type.
    pub(crate) fn float_format(self) -> Option<FloatFormat> {
        let (fraction, least_exponent, largest) = match self {
            Self::F8E4M3FN => (3, -6, 448.0),
            Self::F8E4M3FNUZ => (3, -7, 240.0),
            Self::F8E5M2 => (2, -14, 57344.0),
            Self::F8E5M2FNUZ => (2, -15, 57344.0),
            Self::F8E8M0 => (0, -127, 2_f64.powi(127)),
            Self::F4E2M1 => (1, 0, 6.0),
            Self::I4 | Self::U4 | Self::I2 | Self::U2 => return None,
        };
        Some(FloatFormat {
            fraction,
            least_exponent,
            largest,
            has_infinities: self == Self::F8E5M2,
            has_minus_zero: !matches!(self, Self::F8E4M3FNUZ | Self::F8E5M2FNUZ | Self::F8E8M0),
            has_nan: self != Self::F4E2M1,
        })
    }

    /// The value of a code of [`bits`](Self::bits) bits.
    pub(crate) fn decode(self, code: u8) -> f32 {
        let Some(format) = self.float_format() else {
            let signed = matches!(self, Self::I4 | Self::I2);
            let (code, span) = (f32::from(code), f32::from(1_u8 << self.bits()));
            return if signed && code >= span / 2.0 {
                code - span
            } else {
                code
            };
        };
        if self == Self::F8E8M0 {
            return match code {
                u8::MAX => f32::NAN,
                exponent => 2_f64.powi(i32::from(exponent) - 127) as f32,
            };
        }
        let sign_bit = 1_u8 << (self.bits() - 1);
        let (negative, rest) = (code & sign_bit != 0, code & (sign_bit - 1));
        if negative && rest == 0 && !format.has_minus_zero {
            return f32::NAN;
        }
        let exponent = i32::from(rest >> format.fraction);
        let fraction = f64::from(rest & ((1 << format.fraction) - 1)) / 2_f64.powi(format.fraction);
        let magnitude = match exponent {
            0 => fraction * 2_f64.powi(format.least_exponent),
            _ => (1.0 + fraction) * 2_f64.powi(format.least_exponent + exponent - 1),
        };
        let magnitude = if magnitude <= format.largest {
            magnitude
        } else if format.has_infinities && fraction == 0.0 {
            f64::INFINITY
        } else {
            f64::NAN
        };
        (if negative { -magnitude } else { magnitude }) as f32
    }
}

impl fmt::Display for NarrowType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::F8E4M3FN => "f8e4m3fn",
            Self::F8E4M3FNUZ => "f8e4m3fnuz",
            Self::F8E5M2 => "f8e5m2",
            Self::F8E5M2FNUZ => "f8e5m2fnuz",
            Self::F8E8M0 => "f8e8m0",
            Self::F4E2M1 => "f4e2m1",
            Self::I4 => "i4",
            Self::U4 => "u4",
            Self::I2 => "i2",
            Self::U2 => "u2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_floats_have_the_values_of_their_formats() {
        let value = NarrowType::decode;
        assert_eq!(value(NarrowType::F8E4M3FN, 0x38), 1.0);
        assert_eq!(value(NarrowType::F8E4M3FN, 0x7e), 448.0);
        assert!(value(NarrowType::F8E4M3FN, 0x7f).is_nan());
        assert_eq!(value(NarrowType::F8E4M3FN, 0x01), 2_f32.powi(-9));
        assert_eq!(value(NarrowType::F8E4M3FNUZ, 0x7f), 240.0);
        assert!(value(NarrowType::F8E4M3FNUZ, 0x80).is_nan());
        assert_eq!(value(NarrowType::F8E5M2, 0x7b), 57344.0);
        assert_eq!(value(NarrowType::F8E5M2, 0xfc), f32::NEG_INFINITY);
        assert!(value(NarrowType::F8E5M2, 0x7d).is_nan());
        assert_eq!(value(NarrowType::F8E5M2FNUZ, 0x7f), 57344.0);
        assert_eq!(value(NarrowType::F8E8M0, 0x7f), 1.0);
        assert_eq!(value(NarrowType::F8E8M0, 0), 2_f32.powi(-127));
        assert!(value(NarrowType::F8E8M0, 0xff).is_nan());
    }

    #[test]
    fn four_and_two_bit_elements_become_numbers() {
        let floats: Vec<f32> = (0..16)
            .map(|code| NarrowType::F4E2M1.decode(code))
            .collect();
        assert_eq!(floats[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(floats[15], -6.0);
        assert_eq!(NarrowType::I4.decode(8), -8.0);
        assert_eq!(NarrowType::U4.decode(15), 15.0);
        assert_eq!(NarrowType::I2.decode(3), -1.0);
        assert_eq!(NarrowType::U2.decode(3), 3.0);
    }

    #[test]
    fn every_value_survives_in_the_dtype_that_keeps_it() {
        for narrow in NarrowType::ALL {
            let last = u8::try_from((1_u32 << narrow.bits()) - 1).unwrap();
            for value in (0..=last).map(|code| narrow.decode(code)) {
                let kept = match narrow.kept_in() {
                    DType::F16 => kiln_tensor::f16::from_f32(value).to_f32(),
                    DType::I8 => f32::from(value as i8),
                    DType::U8 => f32::from(value as u8),
                    _ => value,
                };
                assert!(
                    kept == value || kept.is_nan() && value.is_nan(),
                    "{narrow} {value}"
                );
            }
            assert_eq!(NarrowType::from_number(narrow.number()), Some(narrow));
        }
    }
}
