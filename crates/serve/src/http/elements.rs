//! Elements of tensors as JSON: lists of numbers or truth values, flat or nested.

use crate::datatype;
use crate::error::ServeError;
use kiln::internals::tensor::{Element, bf16, f16};
use kiln::{DType, Tensor};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use std::fmt;

/// An element that can be written in JSON.
trait JsonElement: Element + Copy {
    fn of_bool(_value: bool) -> Option<Self> {
        None
    }
    fn of_u64(value: u64) -> Option<Self>;
    fn of_i64(value: i64) -> Option<Self>;
    fn of_f64(_value: f64) -> Option<Self> {
        None
    }
    /// Whether JSON can represent the number.
    fn is_json(self) -> bool {
        true
    }
    fn write<S: SerializeSeq>(self, list: &mut S) -> Result<(), S::Error>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl JsonElement for $ty {
            fn of_u64(value: u64) -> Option<Self> {
                value.try_into().ok()
            }
            fn of_i64(value: i64) -> Option<Self> {
                value.try_into().ok()
            }
            fn write<S: SerializeSeq>(self, list: &mut S) -> Result<(), S::Error> {
                list.serialize_element(&self)
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

/// Floats: `$of` rounds an f64, `$as` is the type that is written, which keeps the value.
macro_rules! floats {
    ($($ty:ty, $of:expr, $as:expr;)*) => {$(
        impl JsonElement for $ty {
            fn of_u64(value: u64) -> Option<Self> {
                Self::of_f64(value as f64)
            }
            fn of_i64(value: i64) -> Option<Self> {
                Self::of_f64(value as f64)
            }
            fn of_f64(value: f64) -> Option<Self> {
                let rounded: $ty = $of(value);
                rounded.is_json().then_some(rounded)
            }
            fn is_json(self) -> bool {
                $as(self).is_finite()
            }
            fn write<S: SerializeSeq>(self, list: &mut S) -> Result<(), S::Error> {
                list.serialize_element(&$as(self))
            }
        }
    )*};
}

floats! {
    f64, |value: f64| value, |value: f64| value;
    f32, |value: f64| value as f32, |value: f32| value;
    f16, f16::from_f64, f16::to_f32;
    bf16, bf16::from_f64, bf16::to_f32;
}

impl JsonElement for bool {
    fn of_bool(value: bool) -> Option<Self> {
        Some(value)
    }
    fn of_u64(_value: u64) -> Option<Self> {
        None
    }
    fn of_i64(_value: i64) -> Option<Self> {
        None
    }
    fn write<S: SerializeSeq>(self, list: &mut S) -> Result<(), S::Error> {
        list.serialize_element(&self)
    }
}

/// Calls `$body` with the Rust type of a dtype as `$ty`; a dtype without one is `$other`.
macro_rules! with_type {
    ($dtype:expr, $ty:ident => $body:expr, $other:expr) => {
        match $dtype {
            DType::F64 => {
                type $ty = f64;
                $body
            }
            DType::F32 => {
                type $ty = f32;
                $body
            }
            DType::F16 => {
                type $ty = f16;
                $body
            }
            DType::BF16 => {
                type $ty = bf16;
                $body
            }
            DType::I64 => {
                type $ty = i64;
                $body
            }
            DType::I32 => {
                type $ty = i32;
                $body
            }
            DType::I16 => {
                type $ty = i16;
                $body
            }
            DType::I8 => {
                type $ty = i8;
                $body
            }
            DType::U64 => {
                type $ty = u64;
                $body
            }
            DType::U32 => {
                type $ty = u32;
                $body
            }
            DType::U16 => {
                type $ty = u16;
                $body
            }
            DType::U8 => {
                type $ty = u8;
                $body
            }
            DType::Bool => {
                type $ty = bool;
                $body
            }
            _ => $other,
        }
    };
}

/// The tensor whose elements are a JSON list.
///
/// # Errors
/// E1502 when the list has the wrong number of elements, or elements that the dtype cannot represent.
pub(super) fn read(
    name: &str,
    dtype: DType,
    shape: &[usize],
    json: &str,
) -> Result<Tensor, ServeError> {
    let name = || name.escape_debug().to_string();
    let expected = format!("{}{shape:?}", datatype::name_of(dtype));
    let misfit = |found: String| ServeError::Tensor {
        what: "input",
        name: name(),
        expected: expected.clone(),
        found: found.escape_debug().to_string(),
    };
    let count = shape
        .iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size));
    let count = count.ok_or_else(|| misfit("sizes whose product is too large".to_owned()))?;
    with_type!(dtype, T => {
        // Each element takes at least a byte of JSON, so a short text cannot reserve much memory.
        let mut elements: Vec<T> = Vec::with_capacity(count.min(json.len()));
        let list = List { elements: &mut elements, count, depth: 0 };
        let mut reader = serde_json::Deserializer::from_str(json);
        list.deserialize(&mut reader).map_err(|error| misfit(error.to_string()))?;
        if elements.len() != count {
            return Err(misfit(format!("{} elements", elements.len())));
        }
        Tensor::from_vec(shape, elements).map_err(|error| ServeError::Call(error.into()))
    }, Err(misfit("a datatype without elements in JSON".to_owned())))
}

/// A list of elements, or of lists.
struct List<'a, T> {
    elements: &'a mut Vec<T>,
    count: usize,
    depth: usize,
}

impl<'de, T: JsonElement> DeserializeSeed<'de> for List<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<T: JsonElement> List<'_, T> {
    fn push<E: Error>(self, element: Option<T>, shown: fmt::Arguments<'_>) -> Result<(), E> {
        let ty = datatype::name_of(T::DTYPE);
        if self.depth == 0 {
            return Err(E::custom(format_args!("{shown} instead of a list")));
        }
        if self.elements.len() == self.count {
            return Err(E::custom(format_args!("more than {} elements", self.count)));
        }
        let element =
            element.ok_or_else(|| E::custom(format_args!("{shown}, which {ty} does not have")))?;
        self.elements.push(element);
        Ok(())
    }
}

impl<'de, T: JsonElement> Visitor<'de> for List<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers or truth values")
    }

    // The reader limits the nesting depth of lists.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            let next = List {
                elements: &mut *self.elements,
                count: self.count,
                depth: self.depth + 1,
            };
            if list.next_element_seed(next)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(T::of_bool(value), format_args!("{value}"))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.push(T::of_u64(value), format_args!("{value}"))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(T::of_i64(value), format_args!("{value}"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.push(T::of_f64(value), format_args!("{value}"))
    }
}

/// A tensor's elements as a flat list.
pub(super) struct Elements(Tensor);

impl Elements {
    /// # Errors
    /// E1512 for numbers that JSON cannot represent.
    pub(super) fn new(name: &str, tensor: &Tensor) -> Result<Self, ServeError> {
        let tensor = tensor.contiguous().map_err(kiln::Error::from)?;
        let is_json = with_type!(tensor.dtype(), T => {
            let elements = tensor.as_slice::<T>().map_err(kiln::Error::from)?;
            elements.iter().all(|element| element.is_json())
        }, false);
        if !is_json {
            let name = name.escape_debug();
            return Err(ServeError::Unsupported {
                what: format!("output {name} as JSON, which has no infinities and no NaN,"),
                next: "ask for binary data (`\"binary_data\": true`)",
            });
        }
        Ok(Self(tensor))
    }
}

impl serde::Serialize for Elements {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        let tensor = &self.0;
        let mut list = writer.serialize_seq(Some(tensor.len()))?;
        with_type!(tensor.dtype(), T => {
            let elements = tensor.as_slice::<T>().map_err(serde::ser::Error::custom)?;
            for &element in elements {
                element.write(&mut list)?;
            }
        }, ());
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_flat_or_nested() {
        let flat = read("x", DType::I32, &[2, 2], "[1, -2, 3, 4]").unwrap();
        let nested = read("x", DType::I32, &[2, 2], "[[1, -2], [3, 4]]").unwrap();
        assert!(flat.bit_equal(&nested));
        let none = read("x", DType::F32, &[0, 3], "[]").unwrap();
        assert_eq!(none.shape(), [0, 3]);
        let scalar = read("x", DType::F16, &[], "[1.5]").unwrap();
        assert_eq!(scalar.len(), 1);
        let truths = read("x", DType::Bool, &[2], "[true, false]").unwrap();
        assert_eq!(truths.to_vec::<bool>().unwrap(), [true, false]);
    }

    #[test]
    fn elements_that_the_datatype_does_not_have_are_errors() {
        for (dtype, json) in [
            (DType::U8, "[256]"),
            (DType::U8, "[-1]"),
            (DType::I32, "[1.5]"),
            (DType::I32, "[true]"),
            (DType::Bool, "[1]"),
            (DType::F32, "[1e39]"),
            (DType::F16, "[70000]"),
            (DType::F32, "[\"1\"]"),
            (DType::F32, "[null]"),
            (DType::F32, "[{}]"),
            (DType::F32, "1"),
            (DType::F32, "[]"),
            (DType::F32, "[1, 2]"),
            (DType::F32, "[NaN]"),
        ] {
            let error = read("x", dtype, &[1], json).unwrap_err();
            assert_eq!(error.code(), "E1502", "{json}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(
            read("x", DType::F32, &[1], &deep).unwrap_err().code(),
            "E1502"
        );
        let huge = [usize::MAX, 2];
        assert_eq!(
            read("x", DType::F32, &huge, "[]").unwrap_err().code(),
            "E1502"
        );
    }

    #[test]
    fn numbers_that_json_does_not_have_are_an_error_with_the_way_out() {
        let tensor = Tensor::from_slice(&[2], &[1.0f32, f32::NAN]).unwrap();
        let error = Elements::new("y", &tensor).map(drop).unwrap_err();
        assert_eq!(error.code(), "E1512");
        assert!(error.to_string().contains("binary_data"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_to_the_bit(bits in prop::collection::vec(any::<u32>(), 0..20)) {
            let finite: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).filter(|value| value.is_finite()).collect();
            let tensor = Tensor::from_slice(&[finite.len()], &finite).unwrap();
            let json = serde_json::to_string(&Elements::new("x", &tensor).unwrap()).unwrap();
            let again = read("x", DType::F32, &[finite.len()], &json).unwrap();
            prop_assert!(again.bit_equal(&tensor), "{json}");
        }
    }
}
