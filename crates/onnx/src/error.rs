//! What can be wrong with a model file.
//!
//! Names from the model are [`Name`]s or paths built from them, so every message is safe to print.
//! No message holds tensor data or the path of a folder.

use kiln_tensor::{DType, TensorError};

use crate::{ElementType, FileError, LimitKind, Name, SUPPORTED_OPSETS};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// E0901: the bytes are not a protobuf message of the ONNX schema, or not all of one.
    #[error("not an ONNX model, or a damaged one: {reason}")]
    NotAModel {
        /// What the decoder met.
        reason: String,
    },

    /// E0902: the model asks for more than [`Limits`](crate::Limits) allow.
    #[error(
        "the model exceeds a limit: expected {kind} of at most {limit}, found {given}; if you trust the file, raise `Limits::{kind}`"
    )]
    Limit {
        /// Which limit.
        kind: LimitKind,
        /// What the model asks for.
        given: u64,
        /// What is allowed.
        limit: u64,
    },

    /// E0903: the model file could not be read.
    #[error("cannot read model file {file}: {source}")]
    File {
        /// The file, without its folders.
        file: Name,
        /// Why.
        source: FileError,
    },

    /// E0904: a tensor is in a file that may not or cannot be read.
    #[error("tensor {tensor}: cannot read data file {location}: {source}")]
    ExternalFile {
        /// The tensor.
        tensor: Name,
        /// The file as the model names it.
        location: Name,
        /// Why.
        source: FileError,
    },

    /// E0905: a tensor's entries about its data file make no sense.
    #[error("tensor {tensor}: bad external data entry `{key}`: {reason}")]
    ExternalEntry {
        /// The tensor.
        tensor: Name,
        /// Which entry.
        key: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// E0906: a tensor's data would end after its file does.
    #[error(
        "tensor {tensor}: expected {length} bytes from offset {offset} of data file {location}, found a file of {size} bytes"
    )]
    ExternalRange {
        /// The tensor.
        tensor: Name,
        /// The file.
        location: Name,
        /// Where the data begin.
        offset: u64,
        /// How many bytes they are.
        length: u64,
        /// The file's size.
        size: u64,
    },

    /// E0907: two tensors share part of a data file without being the same.
    #[error(
        "tensor {tensor}: its {length} bytes from offset {offset} of data file {location} overlap those of tensor {other}; expected the same bytes and element type, or no common byte"
    )]
    ExternalOverlap {
        /// The tensor.
        tensor: Name,
        /// The tensor read before.
        other: Name,
        /// The file.
        location: Name,
        /// Where the data begin.
        offset: u64,
        /// How many bytes they are.
        length: u64,
    },

    /// E0908: a tensor has another number of elements or bytes than its sizes ask for.
    #[error("tensor {tensor}: expected {expected} {unit} of {dtype}, found {found}")]
    TensorLength {
        /// The tensor.
        tensor: Name,
        /// The type of its elements.
        dtype: DType,
        /// What its sizes ask for.
        expected: u64,
        /// What the file has.
        found: u64,
        /// What is counted: elements or bytes.
        unit: &'static str,
    },

    /// E0909: a tensor is described in a way that makes no sense.
    #[error("tensor {tensor}: {reason}")]
    TensorContent {
        /// The tensor.
        tensor: Name,
        /// What is wrong.
        reason: &'static str,
    },

    /// E0910: a tensor is too large for the address space or the memory. (The code is that of the
    /// cause.)
    #[error("tensor {tensor}: {source}")]
    Tensor {
        /// The tensor.
        tensor: Name,
        /// Why.
        source: TensorError,
    },

    /// E0911: a tensor that is needed has elements of a type that Kiln does not compute with.
    #[error("tensor {tensor}: elements of type {element} are not supported")]
    UnsupportedElement {
        /// The tensor.
        tensor: Name,
        /// Its element type.
        element: ElementType,
    },

    /// E0912: the model uses a version of the standard operators that cannot be imported.
    #[error("expected standard operators of version {} to {}, found version {version}; convert the model with `onnx.version_converter`", SUPPORTED_OPSETS.start(), SUPPORTED_OPSETS.end())]
    Opset {
        /// The version.
        version: i64,
    },

    /// E0913: the model is decoded but not put together as ONNX asks.
    #[error("malformed model: {reason}")]
    Structure {
        /// What is wrong, and where.
        reason: String,
    },

    /// E0914: a node lacks an attribute that its operator needs.
    #[error("{node}: expected attribute {attribute} of type {expected}, found none")]
    MissingAttribute {
        /// The node's path.
        node: String,
        /// The attribute.
        attribute: Name,
        /// The type it should have.
        expected: &'static str,
    },

    /// E0915: an attribute has another type than its operator asks for.
    #[error("{node}: expected attribute {attribute} of type {expected}, found {found}")]
    AttributeType {
        /// The node's path.
        node: String,
        /// The attribute.
        attribute: Name,
        /// The type it should have.
        expected: &'static str,
        /// The type it has.
        found: &'static str,
    },
}

impl Error {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAModel { .. } => "E0901",
            Self::Limit { .. } => "E0902",
            Self::File { .. } => "E0903",
            Self::ExternalFile { .. } => "E0904",
            Self::ExternalEntry { .. } => "E0905",
            Self::ExternalRange { .. } => "E0906",
            Self::ExternalOverlap { .. } => "E0907",
            Self::TensorLength { .. } => "E0908",
            Self::TensorContent { .. } => "E0909",
            Self::Tensor { source, .. } => source.code(),
            Self::UnsupportedElement { .. } => "E0911",
            Self::Opset { .. } => "E0912",
            Self::Structure { .. } => "E0913",
            Self::MissingAttribute { .. } => "E0914",
            Self::AttributeType { .. } => "E0915",
        }
    }
}
