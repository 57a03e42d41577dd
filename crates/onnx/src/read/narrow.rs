//! Elements of narrow types: codes from any source, as numbers of the storage dtype.

use kiln_tensor::{DType, Element, Tensor, f16};

use super::external::ExternalFiles;
use super::tensor::Expected;
use crate::Error;
use crate::model::NarrowType;
use crate::proto::TensorProto;

/// Reads the elements of a tensor of a narrow type; `expected` has the storage dtype.
pub(crate) fn narrow_elements(
    expected: &Expected<'_>,
    narrow: NarrowType,
    proto: TensorProto,
    external: &mut ExternalFiles<'_>,
) -> Result<Tensor, Error> {
    let per_byte = (8 / narrow.bits()) as usize;
    let length = expected.elements.div_ceil(per_byte);
    let packed = Expected {
        name: expected.name,
        dtype: DType::U8,
        shape: vec![length],
        elements: length,
    };
    let outside;
    let codes: Codes<'_> = match proto.data_location {
        // A list holds a byte of several elements per entry, like the raw bytes.
        0 if proto.raw_data.is_empty() => {
            packed.check_length(length as u64, proto.int32_data.len(), "bytes")?;
            Codes::Listed(&proto.int32_data)
        }
        0 => {
            packed.check_length(length as u64, proto.raw_data.len(), "bytes")?;
            Codes::Raw(&proto.raw_data)
        }
        1 => {
            outside = external.read(&packed, &proto.external_data)?;
            Codes::Raw(outside.as_bytes().map_err(|error| expected.at(error))?)
        }
        _ => return Err(expected.malformed("its data location is not one that ONNX defines")),
    };
    match expected.dtype {
        DType::F16 => decoded(expected, narrow, &codes, f16::from_f32),
        DType::F32 => decoded(expected, narrow, &codes, |value| value),
        DType::I8 => decoded(expected, narrow, &codes, |value| value as i8),
        DType::U8 => decoded(expected, narrow, &codes, |value| value as u8),
        _ => Err(expected.malformed("elements of its type are not read")),
    }
}

enum Codes<'a> {
    Raw(&'a [u8]),
    Listed(&'a [i32]),
}

impl Codes<'_> {
    /// The byte at an index in range; for a list entry the low byte.
    fn byte(&self, index: usize) -> u8 {
        match self {
            Self::Raw(bytes) => bytes.get(index).copied().unwrap_or(0),
            Self::Listed(entries) => entries.get(index).map_or(0, |entry| entry.to_le_bytes()[0]),
        }
    }
}

fn decoded<T: Element>(
    expected: &Expected<'_>,
    narrow: NarrowType,
    codes: &Codes<'_>,
    keep: impl Fn(f32) -> T,
) -> Result<Tensor, Error> {
    let bits = narrow.bits() as usize;
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    let mut elements = Vec::new();
    elements.try_reserve_exact(expected.elements).map_err(|_| {
        let bytes = expected.elements.saturating_mul(size_of::<T>());
        expected.at(kiln_tensor::TensorError::Allocation { bytes })
    })?;
    elements.extend((0..expected.elements).map(|index| {
        let byte = codes.byte(index / per_byte);
        let code = (byte >> (index % per_byte * bits)) & mask;
        keep(narrow.decode(code))
    }));
    Tensor::from_vec(&expected.shape, elements).map_err(|error| expected.at(error))
}
