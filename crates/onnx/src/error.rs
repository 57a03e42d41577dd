//! Errors of a model file, and of its import.
//!
//! Names from the model are [`Name`]s or paths built from them, so every message is safe to print. No message contains
//! tensor data or the path of a folder.

use kiln_shape_inference::InferError;
use kiln_symbolic_shape::DimError;
use kiln_tensor::{DType, TensorError};

use crate::import::list_operators;
use crate::{ElementType, FileError, LimitKind, Name, SUPPORTED_OPSETS, UnsupportedOperator};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// E0901: the bytes are not a protobuf message of the ONNX schema, or not a complete one.
    #[error("not an ONNX model, or a damaged one: {reason}")]
    NotAModel {
        /// The decoder's message.
        reason: String,
    },

    /// E0902: the model exceeds [`Limits`](crate::Limits).
    #[error(
        "the model exceeds a limit: expected {kind} of at most {limit}, found {given}; if you trust the file, raise `Limits::{kind}`"
    )]
    Limit {
        /// Which limit.
        kind: LimitKind,
        /// The given number.
        given: u64,
        /// The limit.
        limit: u64,
    },

    /// E0903: the model file could not be read.
    #[error("cannot read model file {file}: {source}")]
    File {
        /// The file, without its folders.
        file: Name,
        /// The reason.
        source: FileError,
    },

    /// E0904: a tensor is in a file that cannot be read, or that is refused.
    #[error("tensor {tensor}: cannot read data file {location}: {source}")]
    ExternalFile {
        /// The tensor.
        tensor: Name,
        /// The file as named by the model.
        location: Name,
        /// The reason.
        source: FileError,
    },

    /// E0905: a tensor's entry for its data file is invalid.
    #[error("tensor {tensor}: bad external data entry `{key}`: {reason}")]
    ExternalEntry {
        /// The tensor.
        tensor: Name,
        /// Which entry.
        key: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// E0906: a tensor's data extend past the end of its file.
    #[error(
        "tensor {tensor}: expected {length} bytes from offset {offset} of data file {location}, found a file of {size} bytes"
    )]
    ExternalRange {
        /// The tensor.
        tensor: Name,
        /// The file.
        location: Name,
        /// The offset of the data.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The file's size.
        size: u64,
    },

    /// E0907: two tensors share part of a data file without being identical.
    #[error(
        "tensor {tensor}: its {length} bytes from offset {offset} of data file {location} overlap those of tensor {other}; expected the same bytes and element type, or no common byte"
    )]
    ExternalOverlap {
        /// The tensor.
        tensor: Name,
        /// The tensor read earlier.
        other: Name,
        /// The file.
        location: Name,
        /// The offset of the data.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },

    /// E0908: a tensor's number of elements or bytes differs from its sizes.
    #[error("tensor {tensor}: expected {expected} {unit} of {dtype}, found {found}")]
    TensorLength {
        /// The tensor.
        tensor: Name,
        /// The type of its elements.
        dtype: DType,
        /// The number according to its sizes.
        expected: u64,
        /// The number in the file.
        found: u64,
        /// What is counted: elements or bytes.
        unit: &'static str,
    },

    /// E0909: a tensor's description is invalid.
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
        /// The reason.
        source: TensorError,
    },

    /// E0911: a tensor that is needed has an unsupported element type.
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

    /// E0913: the model can be decoded but violates ONNX's structural rules.
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

    /// E0915: an attribute's type differs from its operator's.
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

    /// E0916: the model uses operators without an importer.
    #[error(
        "the model uses operators that are not supported: {}; add them with `ImportOptions::operator`, or export the model without them",
        list_operators(operators)
    )]
    UnsupportedOperators {
        /// All of them.
        operators: Vec<UnsupportedOperator>,
    },

    /// E0917: a node uses an operator in a way that cannot be imported.
    #[error("{node}: not supported: {what}")]
    Unsupported {
        /// The node's path.
        node: String,
        /// The unsupported use.
        what: String,
    },

    /// E0918: a node reads a name that nothing produces.
    #[error("{node}: its operand {name} is undefined")]
    Undefined {
        /// The node's path.
        node: String,
        /// The name.
        name: Name,
    },

    /// E0919: a node produces a name that already has a value.
    #[error("{node}: expected a new name for each result, found {name} a second time")]
    Redefined {
        /// The node's path.
        node: String,
        /// The name.
        name: Name,
    },

    /// E0920: the operator does not accept an operand.
    #[error("{node}: operand {index}: expected {expected}, found {found}")]
    Operand {
        /// The node's path.
        node: String,
        /// Which operand.
        index: usize,
        /// What the operator accepts.
        expected: String,
        /// What the node passes.
        found: String,
    },

    /// E0921: the value of an attribute is invalid for the operator.
    #[error("{node}: attribute {attribute}: expected {expected}, found {found}")]
    AttributeValue {
        /// The node's path.
        node: String,
        /// The attribute.
        attribute: Name,
        /// What is valid.
        expected: String,
        /// The node's value.
        found: String,
    },

    /// E0922: the model does not state the rank of an input.
    #[error(
        "input {input}: expected a known rank, found none; give one with the option `rank` (`--rank` on the command line)"
    )]
    UnknownRank {
        /// The input.
        input: Name,
    },

    /// E0923: an input has a type that Kiln does not support.
    #[error("input {input}: expected a tensor of a supported element type, found {found}")]
    InputType {
        /// The input.
        input: Name,
        /// Its type.
        found: String,
    },

    /// E0924: the caller constrains a size that the model's inputs do not have.
    #[error("expected one of the model's sizes {known:?}, found {name}")]
    UnknownSize {
        /// The caller's name.
        name: Name,
        /// The sizes that the inputs have.
        known: Vec<Name>,
    },

    /// E0925: the caller makes an input a constant that does not fit it.
    #[error("input {input}: expected a constant of {expected}, found {found}")]
    FixedInput {
        /// The input.
        input: Name,
        /// Its type.
        expected: String,
        /// The constant's type.
        found: String,
    },

    /// E0926: the caller names an input that the model does not have.
    #[error("expected one of the model's inputs {known:?}, found {name}")]
    UnknownInput {
        /// The caller's name.
        name: Name,
        /// The model's inputs.
        known: Vec<Name>,
    },

    /// E0927: an input is a sequence, and its number of entries is unknown.
    #[error(
        "input {input}: expected a known number of entries, found none; give one with the option `length` (`--length` on the command line)"
    )]
    UnknownLength {
        /// The input.
        input: Name,
    },

    /// E0928: a model that cannot be rewritten with narrower weights.
    #[error("the model cannot be quantised: {reason}")]
    NotQuantized {
        /// The reason.
        reason: String,
    },

    /// E0944: nodes read each other's results in a cycle.
    #[error(
        "expected nodes that can run one after the other, found a cycle: {}",
        described(nodes)
    )]
    Cycle {
        /// The paths of the nodes, each of which reads a result of the next, and the last one a result of the first.
        nodes: Vec<String>,
    },

    /// The types at a node do not fit. (The code is that of the cause.)
    #[error("{node}: {source}")]
    Infer {
        /// The node's path.
        node: String,
        /// The reason.
        source: InferError,
    },

    /// The sizes at a node cannot be computed. (The code is that of the cause.)
    #[error("{node}: {source}")]
    Size {
        /// The node's path.
        node: String,
        /// The reason.
        source: DimError,
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
            Self::UnsupportedOperators { .. } => "E0916",
            Self::Unsupported { .. } => "E0917",
            Self::Undefined { .. } => "E0918",
            Self::Redefined { .. } => "E0919",
            Self::Operand { .. } => "E0920",
            Self::AttributeValue { .. } => "E0921",
            Self::UnknownRank { .. } => "E0922",
            Self::InputType { .. } => "E0923",
            Self::UnknownSize { .. } => "E0924",
            Self::FixedInput { .. } => "E0925",
            Self::UnknownInput { .. } => "E0926",
            Self::UnknownLength { .. } => "E0927",
            Self::Cycle { .. } => "E0944",
            Self::NotQuantized { .. } => "E0928",
            Self::Infer { source, .. } => source.code(),
            Self::Size { source, .. } => source.code(),
        }
    }
}

/// The first nodes of a list, and the number of further ones.
fn described(nodes: &[String]) -> String {
    const LISTED: usize = 8;
    let listed: Vec<&str> = nodes.iter().take(LISTED).map(String::as_str).collect();
    let listed = listed.join(", ");
    match nodes.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}
