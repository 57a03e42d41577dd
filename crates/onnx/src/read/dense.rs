//! Elements that are inside the model file: raw bytes or one of the typed lists.

use kiln_tensor::{DType, Element, Tensor, bf16, f16};

use super::tensor::Expected;
use crate::Error;
use crate::proto::TensorProto;

/// Elements from little-endian bytes. For a bool, every byte except 0 is true.
pub(crate) fn raw_elements(expected: &Expected<'_>, bytes: &[u8]) -> Result<Tensor, Error> {
    expected.check_length(expected.bytes(), bytes.len(), "bytes")?;
    Tensor::from_bytes(expected.dtype, &expected.shape, bytes).map_err(|error| expected.at(error))
}

/// Elements from the list that the format prescribes for their type.
pub(crate) fn typed_elements(expected: &Expected<'_>, proto: TensorProto) -> Result<Tensor, Error> {
    match expected.dtype {
        DType::F32 => same(expected, proto.float_data),
        DType::F64 => same(expected, proto.double_data),
        DType::I64 => same(expected, proto.int64_data),
        DType::U64 => same(expected, proto.uint64_data),
        DType::I32 => same(expected, proto.int32_data),
        DType::U32 => converted(expected, &proto.uint64_data, |value| {
            u32::try_from(value).ok()
        }),
        DType::I16 => converted(expected, &proto.int32_data, |value| {
            i16::try_from(value).ok()
        }),
        DType::I8 => converted(expected, &proto.int32_data, |value| {
            i8::try_from(value).ok()
        }),
        DType::U16 => converted(expected, &proto.int32_data, |value| {
            u16::try_from(value).ok()
        }),
        DType::U8 => converted(expected, &proto.int32_data, |value| {
            u8::try_from(value).ok()
        }),
        DType::Bool => converted(expected, &proto.int32_data, |value| Some(value != 0)),
        // The bits of a half are in the low half of an int32; some writers extend the sign.
        DType::F16 => converted(expected, &proto.int32_data, |value| {
            low_half(value).map(f16::from_bits)
        }),
        DType::BF16 => converted(expected, &proto.int32_data, |value| {
            low_half(value).map(bf16::from_bits)
        }),
        _ => Err(expected.malformed("elements of its type are not read from lists")),
    }
}

fn same<T: Element>(expected: &Expected<'_>, values: Vec<T>) -> Result<Tensor, Error> {
    expected.check_length(expected.elements as u64, values.len(), "elements")?;
    Tensor::from_vec(&expected.shape, values).map_err(|error| expected.at(error))
}

fn converted<S: Copy, T: Element>(
    expected: &Expected<'_>,
    values: &[S],
    convert: impl Fn(S) -> Option<T>,
) -> Result<Tensor, Error> {
    expected.check_length(expected.elements as u64, values.len(), "elements")?;
    let converted = values
        .iter()
        .map(|&value| convert(value))
        .collect::<Option<Vec<T>>>();
    let converted =
        converted.ok_or_else(|| expected.malformed("an element is out of range for its type"))?;
    Tensor::from_vec(&expected.shape, converted).map_err(|error| expected.at(error))
}

fn low_half(value: i32) -> Option<u16> {
    u16::try_from(value)
        .ok()
        .or_else(|| i16::try_from(value).ok().map(i16::cast_unsigned))
}
