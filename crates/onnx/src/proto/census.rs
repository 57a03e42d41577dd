//! Counts the contents of a protobuf file before anything is built from it.
//!
//! A message of two bytes becomes a struct of hundreds, so a small file could make the decoder allocate a lot of memory,
//! and nesting costs the decoder stack. This walk reads only keys and lengths, keeps its own bounded stack, allocates
//! nothing proportional to the input, and stops at the first limit. After it, decoding takes at most the structure bytes
//! counted here plus a small multiple of the file, and never reaches `prost`'s own recursion limit.

use std::mem::size_of;

use super::{
    AttributeProto, Bytes, Dimension, FunctionProto, GraphProto, MapType, ModelProto, NodeProto,
    OpaqueType, OperatorSetIdProto, Segment, SparseTensorProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TensorType, TypeProto, ValueInfoProto, WrapperType,
};
use crate::{Error, LimitKind, Limits};

/// Checks that `bytes`, a message of the kind `root`, are well-formed as far as keys and lengths
/// go, and that decoding them stays within `limits`.
///
/// # Errors
/// [`Error::NotAModel`] for malformed bytes, [`Error::Limit`] for the first limit exceeded.
pub(crate) fn take_census(bytes: &[u8], root: Kind, limits: &Limits) -> Result<(), Error> {
    limits.check(LimitKind::ModelBytes, bytes.len() as u64)?;
    let mut open: Vec<(Kind, usize)> = Vec::new();
    let (mut kind, mut end) = (root, bytes.len());
    let (mut messages, mut structure) = (1_u64, root.size() as u64);
    let mut position = 0;
    loop {
        if position == end {
            match open.pop() {
                Some(outer) => (kind, end) = outer,
                None => return Ok(()),
            }
            continue;
        }
        let key = read_varint(bytes, &mut position, end)?;
        let field = u32::try_from(key >> 3)
            .ok()
            .filter(|&number| number != 0)
            .ok_or_else(|| malformed("field key"))?;
        let length = match key & 7 {
            0 => {
                read_varint(bytes, &mut position, end)?;
                continue;
            }
            1 => 8,
            2 => read_varint(bytes, &mut position, end)?,
            5 => 4,
            _ => return Err(malformed("wire type")),
        };
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= end - position);
        let length =
            length.ok_or_else(|| malformed("length: it reaches past the end of its message"))?;
        let content = if key & 7 == 2 {
            content_of(kind, field)
        } else {
            Content::Skipped
        };
        match content {
            Content::Skipped => position += length,
            Content::Text(size) => {
                (messages, structure) = (messages + 1, structure + size as u64);
                position += length;
            }
            Content::Message(inner) => {
                (messages, structure) = (messages + 1, structure + inner.size() as u64);
                open.push((kind, end));
                limits.check(LimitKind::Nesting, open.len() as u64)?;
                (kind, end) = (inner, position + length);
            }
        }
        limits.check(LimitKind::Messages, messages)?;
        limits.check(LimitKind::StructureBytes, structure)?;
    }
}

/// The messages that the decoder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    ValueInfo,
    Entry,
    OperatorSetId,
    Function,
    Tensor,
    Segment,
    SparseTensor,
    Type,
    TensorType,
    WrapperType,
    MapType,
    OpaqueType,
    Shape,
    Dimension,
}

/// The content of a length-delimited field.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Numbers, bytes that are not copied, or a field unknown to the decoder.
    Skipped,
    /// A string or byte string, with the decoder's overhead in addition to the text.
    Text(usize),
    Message(Kind),
}

impl Kind {
    fn size(self) -> usize {
        match self {
            Self::Model => size_of::<ModelProto>(),
            Self::Graph => size_of::<GraphProto>(),
            Self::Node => size_of::<NodeProto>(),
            Self::Attribute => size_of::<AttributeProto>(),
            Self::ValueInfo => size_of::<ValueInfoProto>(),
            Self::Entry => size_of::<StringStringEntryProto>(),
            Self::OperatorSetId => size_of::<OperatorSetIdProto>(),
            Self::Function => size_of::<FunctionProto>(),
            Self::Tensor => size_of::<TensorProto>(),
            Self::Segment => size_of::<Segment>(),
            Self::SparseTensor => size_of::<SparseTensorProto>(),
            Self::Type => size_of::<TypeProto>(),
            Self::TensorType => size_of::<TensorType>(),
            Self::WrapperType => size_of::<WrapperType>(),
            Self::MapType => size_of::<MapType>(),
            Self::OpaqueType => size_of::<OpaqueType>(),
            Self::Shape => size_of::<TensorShapeProto>(),
            Self::Dimension => size_of::<Dimension>(),
        }
    }
}

/// The schema: which field of which message holds what.
fn content_of(kind: Kind, field: u32) -> Content {
    use Content::{Message, Text};
    const STRING: Content = Text(size_of::<String>());
    const BYTES: Content = Text(size_of::<Bytes>());
    match (kind, field) {
        (Kind::Model, 2..=4) => STRING,
        (Kind::Model, 7) => Message(Kind::Graph),
        (Kind::Model, 8) => Message(Kind::OperatorSetId),
        (Kind::Model, 14) => Message(Kind::Entry),
        (Kind::Model, 25) => Message(Kind::Function),

        (Kind::Graph, 1) => Message(Kind::Node),
        (Kind::Graph, 2) => STRING,
        (Kind::Graph, 5) => Message(Kind::Tensor),
        (Kind::Graph, 11..=13) => Message(Kind::ValueInfo),
        (Kind::Graph, 15) => Message(Kind::SparseTensor),

        (Kind::Node, 1 | 2 | 3 | 4 | 7 | 8) => STRING,
        (Kind::Node, 5) => Message(Kind::Attribute),

        (Kind::Attribute, 1 | 21) => STRING,
        (Kind::Attribute, 4 | 9) => BYTES,
        (Kind::Attribute, 5 | 10) => Message(Kind::Tensor),
        (Kind::Attribute, 6 | 11) => Message(Kind::Graph),
        (Kind::Attribute, 14 | 15) => Message(Kind::Type),
        (Kind::Attribute, 22 | 23) => Message(Kind::SparseTensor),

        (Kind::ValueInfo, 1) => STRING,
        (Kind::ValueInfo, 2) => Message(Kind::Type),

        (Kind::Entry, 1 | 2) => STRING,
        (Kind::OperatorSetId, 1) => STRING,

        (Kind::Function, 1 | 4 | 5 | 6 | 10 | 13) => STRING,
        (Kind::Function, 7) => Message(Kind::Node),
        (Kind::Function, 9) => Message(Kind::OperatorSetId),
        (Kind::Function, 11) => Message(Kind::Attribute),

        (Kind::Tensor, 3) => Message(Kind::Segment),
        (Kind::Tensor, 8) => STRING,
        (Kind::Tensor, 9) => BYTES,
        (Kind::Tensor, 13) => Message(Kind::Entry),

        (Kind::SparseTensor, 1 | 2) => Message(Kind::Tensor),

        (Kind::Type, 1 | 8) => Message(Kind::TensorType),
        (Kind::Type, 4 | 9) => Message(Kind::WrapperType),
        (Kind::Type, 5) => Message(Kind::MapType),
        (Kind::Type, 7) => Message(Kind::OpaqueType),
        (Kind::TensorType, 2) => Message(Kind::Shape),
        (Kind::WrapperType, 1) | (Kind::MapType, 2) => Message(Kind::Type),
        (Kind::OpaqueType, 1 | 2) => STRING,
        (Kind::Shape, 1) => Message(Kind::Dimension),
        (Kind::Dimension, 2) => STRING,
        _ => Content::Skipped,
    }
}

fn read_varint(bytes: &[u8], position: &mut usize, end: usize) -> Result<u64, Error> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = match bytes.get(*position) {
            Some(&byte) if *position < end => byte,
            _ => return Err(malformed("number: it is truncated")),
        };
        *position += 1;
        let low = u64::from(byte & 0x7f);
        if shift == 63 && byte > 1 {
            break;
        }
        value |= low << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed("number: it has more than 64 bits"))
}

fn malformed(what: &str) -> Error {
    Error::NotAModel {
        reason: format!("malformed {what}"),
    }
}

#[cfg(test)]
mod tests;
