//! Prints and reads the elements of a small constant, bit for bit.
//!
//! Finite floats print in the fewest digits that read back exactly in their own dtype. Infinities
//! are `inf`, the quiet NaN of the standard bit pattern is `nan`; any other NaN has no element
//! text, so its constant prints as a digest.

use half::{bf16, f16};
use kiln_tensor::{DType, Element, Tensor, TensorError};
use std::fmt::Write;

/// The elements in row-major order, comma separated; `None` when some element has no text.
pub(super) fn elements_text(tensor: &Tensor) -> Option<String> {
    fn join<T: Element>(tensor: &Tensor, write: impl Fn(&mut String, T) -> bool) -> Option<String> {
        let mut text = String::new();
        for (index, value) in tensor.to_vec::<T>().ok()?.into_iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            if !write(&mut text, value) {
                return None;
            }
        }
        Some(text)
    }
    // Writing to a `String` does not fail.
    macro_rules! integers {
        ($ty:ty) => {
            join::<$ty>(tensor, |text, value| write!(text, "{value}").is_ok())
        };
    }
    macro_rules! floats {
        ($ty:ty) => {
            join::<$ty>(tensor, |text, value| {
                if value.is_nan() && value.to_bits() != <$ty>::NAN.to_bits() {
                    return false;
                }
                write_float(text, f64::from(value), &|shorter| {
                    shorter
                        .parse::<$ty>()
                        .is_ok_and(|read| read.to_bits() == value.to_bits())
                });
                true
            })
        };
    }
    match tensor.dtype() {
        DType::F64 => floats!(f64),
        DType::F32 => floats!(f32),
        DType::F16 => floats!(f16),
        DType::BF16 => floats!(bf16),
        DType::I64 => integers!(i64),
        DType::I32 => integers!(i32),
        DType::I16 => integers!(i16),
        DType::I8 => integers!(i8),
        DType::U64 => integers!(u64),
        DType::U32 => integers!(u32),
        DType::U16 => integers!(u16),
        DType::U8 => integers!(u8),
        DType::Bool => join::<bool>(tensor, |text, value| write!(text, "{value}").is_ok()),
        _ => None,
    }
}

/// Appends a float in the text form: the fewest digits for which `reads_back` holds.
pub(super) fn write_float(text: &mut String, value: f64, reads_back: &dyn Fn(&str) -> bool) {
    if value.is_nan() {
        text.push_str("nan");
    } else if value.is_infinite() {
        text.push_str(if value > 0.0 { "inf" } else { "-inf" });
    } else {
        // As f32 there are fewer digits; as f64 they always read back.
        let short = format!("{:?}", value as f32);
        if f64::from(value as f32) == value && reads_back(&short) {
            text.push_str(&short);
        } else {
            let _infallible = write!(text, "{value:?}");
        }
    }
}

/// Builds the tensor from one word per element.
///
/// Returns the first word that is not an element of the dtype.
pub(super) fn tensor_of_words(
    dtype: DType,
    shape: &[usize],
    words: &[String],
) -> Result<Tensor, ElementsError> {
    fn build<T: Element>(
        shape: &[usize],
        words: &[String],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Tensor, ElementsError> {
        let elements = words
            .iter()
            .map(|word| parse(word).ok_or_else(|| ElementsError::Word(word.clone())))
            .collect::<Result<Vec<T>, _>>()?;
        Tensor::from_slice(shape, &elements).map_err(ElementsError::Tensor)
    }
    macro_rules! number {
        ($ty:ty) => {
            build::<$ty>(shape, words, |word| word.parse().ok())
        };
    }
    macro_rules! float {
        ($ty:ty) => {
            build::<$ty>(shape, words, |word| match word {
                "nan" => Some(<$ty>::NAN),
                _ => word.parse().ok(),
            })
        };
    }
    match dtype {
        DType::F64 => float!(f64),
        DType::F32 => float!(f32),
        DType::F16 => float!(f16),
        DType::BF16 => float!(bf16),
        DType::I64 => number!(i64),
        DType::I32 => number!(i32),
        DType::I16 => number!(i16),
        DType::I8 => number!(i8),
        DType::U64 => number!(u64),
        DType::U32 => number!(u32),
        DType::U16 => number!(u16),
        DType::U8 => number!(u8),
        DType::Bool => number!(bool),
        _ => Err(ElementsError::Dtype),
    }
}

/// Why words do not form a tensor.
#[derive(Debug)]
pub(super) enum ElementsError {
    /// The word is not an element of the dtype.
    Word(String),
    /// The dtype has no element text.
    Dtype,
    /// The tensor cannot be made.
    Tensor(TensorError),
}
