//! The formats of a product's operands, and their names.

use crate::error::PrecisionError;
use kiln_tensor::DType;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The formats to which the operands of a product are rounded.
///
/// Spelled `f32`, `bf16`, `f16`, `int8`, `int8-weights`, `int4-weights` or `int4-int8`, the last three with `/32` for a scale
/// per group of 32 rows and `/zero-points` for codes that are not centred at zero, in that order.
///
/// ```
/// use kiln_precision::Format;
///
/// let format: Format = "int4-weights/32/zero-points".parse()?;
/// assert_eq!(format.to_string(), "int4-weights/32/zero-points");
/// # Ok::<(), kiln_precision::PrecisionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Unchanged.
    F32,
    /// Both operands rounded to bf16, sums in f32.
    BF16,
    /// Both operands rounded to f16, sums in f32. Magnitudes above 65,504 become infinite.
    F16,
    /// Weights as integers with scales, activations and sums in f32.
    Weights(WeightFormat),
    /// Weights as integers of 4 bits with scales; activations as i8 with a scale per row that each call computes. Sums are
    /// those of floats, and backends may sum the products of a group as integers.
    Int4Int8(GroupFormat),
    /// Weights as i8 with a scale per column; activations as i8 with a scale per row (per sample of a convolution) that each
    /// call computes from the largest magnitude; sums in i32.
    Int8,
}

/// Groups of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupFormat {
    /// As [`WeightFormat::group`].
    pub group: Option<NonZeroU32>,
    /// As [`WeightFormat::zero_points`].
    pub zero_points: bool,
}

/// Weights as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightFormat {
    /// Bits of a code.
    pub bits: Bits,
    /// The number of consecutive rows (elements along the summed axis) that share a scale; all of them if unset.
    pub group: Option<NonZeroU32>,
    /// Whether each group has a zero point: the code of zero. Without one, codes are centred at zero.
    pub zero_points: bool,
}

/// Bits of a quantised weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// Two codes per byte.
    Four,
    /// A code per byte.
    Eight,
}

impl Bits {
    /// The number of bits.
    pub fn count(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

impl Format {
    /// The float type of both operands, for formats that have one.
    pub(crate) fn narrow_float(self) -> Option<DType> {
        match self {
            Self::BF16 => Some(DType::BF16),
            Self::F16 => Some(DType::F16),
            _ => None,
        }
    }
}

const ZERO_POINTS: &str = "zero-points";

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("f32"),
            Self::BF16 => f.write_str("bf16"),
            Self::F16 => f.write_str("f16"),
            Self::Int8 => f.write_str("int8"),
            Self::Weights(format) => {
                write!(f, "int{}-weights{}", format.bits.count(), format.groups())
            }
            Self::Int4Int8(groups) => write!(f, "int4-int8{groups}"),
        }
    }
}

impl WeightFormat {
    fn groups(self) -> GroupFormat {
        GroupFormat {
            group: self.group,
            zero_points: self.zero_points,
        }
    }
}

impl From<GroupFormat> for WeightFormat {
    /// Weights of four bits.
    fn from(groups: GroupFormat) -> Self {
        Self {
            bits: Bits::Four,
            group: groups.group,
            zero_points: groups.zero_points,
        }
    }
}

impl fmt::Display for GroupFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = self.group {
            write!(f, "/{group}")?;
        }
        match self.zero_points {
            true => write!(f, "/{ZERO_POINTS}"),
            false => Ok(()),
        }
    }
}

/// The meaning of the first word of a format.
enum Word {
    Whole(Format),
    Weights(Bits),
    Int4Int8,
}

impl FromStr for Format {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        let unknown = || PrecisionError::UnknownFormat { found: text.into() };
        let mut parts = text.split('/').peekable();
        let name = parts.next().unwrap_or_default();
        let word = match name {
            "f32" => Word::Whole(Self::F32),
            "bf16" => Word::Whole(Self::BF16),
            "f16" => Word::Whole(Self::F16),
            "int8" => Word::Whole(Self::Int8),
            "int8-weights" => Word::Weights(Bits::Eight),
            "int4-weights" => Word::Weights(Bits::Four),
            "int4-int8" => Word::Int4Int8,
            _ => return Err(unknown()),
        };
        let group = match parts.peek().and_then(|part| part.parse::<u32>().ok()) {
            Some(rows) => {
                parts.next();
                let even = NonZeroU32::new(rows).filter(|rows| rows.get() % 2 == 0);
                Some(even.ok_or(PrecisionError::Group { found: rows })?)
            }
            None => None,
        };
        let zero_points = parts.next_if_eq(&ZERO_POINTS).is_some();
        match (word, parts.next()) {
            (Word::Weights(bits), None) => Ok(Self::Weights(WeightFormat {
                bits,
                group,
                zero_points,
            })),
            (Word::Int4Int8, None) => Ok(Self::Int4Int8(GroupFormat { group, zero_points })),
            (Word::Whole(format), None) if group.is_none() && !zero_points => Ok(format),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_read_back_from_its_text() {
        let texts = [
            "f32",
            "bf16",
            "f16",
            "int8",
            "int8-weights",
            "int4-weights",
            "int8-weights/128",
            "int4-weights/zero-points",
            "int4-weights/32/zero-points",
            "int4-int8",
            "int4-int8/64/zero-points",
        ];
        for text in texts {
            let format: Format = text.parse().unwrap();
            assert_eq!(format.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_errors_that_list_the_formats() {
        for text in [
            "",
            "int3-weights",
            "bf16/32",
            "int8/zero-points",
            "int4-weights/zero-points/32",
            "int4-weights/",
            "int8-int4",
            "int4-int8/",
        ] {
            let error = text.parse::<Format>().unwrap_err();
            assert_eq!(error.code(), "E0641", "{text}");
            assert!(error.to_string().contains("int4-weights"), "{error}");
        }
        for text in ["int4-weights/0", "int8-weights/33"] {
            assert_eq!(text.parse::<Format>().unwrap_err().code(), "E0642");
        }
    }
}
