//! Limits on the cost of a model file.
//!
//! Every limit is checked before the memory it bounds is taken. Real models stay far below the defaults.

use std::fmt;

use crate::Error;

/// Upper bounds on what loading a model may take. Build one with [`Limits::default`] and change
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the model file itself; 2 GiB, protobuf's maximum.
    pub model_bytes: u64,
    /// Messages (nodes, attributes, tensors, dimensions, entries, …) and strings in the file; 16
    /// Mi.
    pub messages: u64,
    /// Bytes of the decoded messages, excluding tensor data; 1 GiB.
    pub structure_bytes: u64,
    /// Nested messages; 90. A nested graph costs three. Decoding stops at 100 in any case.
    pub nesting: u64,
    /// Axes of one tensor; 64.
    pub rank: u64,
    /// Total bytes of all tensors; 256 GiB.
    pub tensor_bytes: u64,
    /// Total bytes, in dense form, of all tensors that the file stores sparsely; 256 MiB.
    pub dense_bytes: u64,
    /// Nested calls of the model's own functions; 32.
    pub call_depth: u64,
    /// Nodes created by calls of the model's own functions and loops over sequences; 128 Ki. Each takes about a kilobyte
    /// once it is imported.
    pub inlined_nodes: u64,
    /// Entries of all sequences that operators create; 4 Mi.
    pub sequence_entries: u64,
    /// Parts that one operator is expanded into: iterations of a loop over a sequence, parts of a split; 64 Ki.
    pub operator_parts: u64,
    /// Declared elements of an operand that holds sizes, such as that of a `Reshape`; 256, the maximum that a builder turns
    /// into sizes.
    pub shape_elements: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_bytes: 2 << 30,
            messages: 16 << 20,
            structure_bytes: 1 << 30,
            nesting: 90,
            rank: 64,
            tensor_bytes: 256 << 30,
            dense_bytes: 256 << 20,
            call_depth: 32,
            inlined_nodes: 128 << 10,
            sequence_entries: 4 << 20,
            operator_parts: 64 << 10,
            shape_elements: 256,
        }
    }
}

impl Limits {
    /// Checks a number from the model against the limit of that kind.
    ///
    /// # Errors
    /// [`Error::Limit`] when `given` is more.
    pub(crate) fn check(&self, kind: LimitKind, given: u64) -> Result<(), Error> {
        let limit = match kind {
            LimitKind::ModelBytes => self.model_bytes,
            LimitKind::Messages => self.messages,
            LimitKind::StructureBytes => self.structure_bytes,
            LimitKind::Nesting => self.nesting.min(DECODER_NESTING),
            LimitKind::Rank => self.rank,
            LimitKind::TensorBytes => self.tensor_bytes,
            LimitKind::DenseBytes => self.dense_bytes,
            LimitKind::CallDepth => self.call_depth,
            LimitKind::InlinedNodes => self.inlined_nodes,
            LimitKind::SequenceEntries => self.sequence_entries,
            LimitKind::OperatorParts => self.operator_parts,
            LimitKind::ShapeElements => self.shape_elements,
        };
        if given > limit {
            Err(Error::Limit { kind, given, limit })
        } else {
            Ok(())
        }
    }
}

/// The nesting at which the decoder would stop, minus a margin.
const DECODER_NESTING: u64 = 98;

/// Which of the [`Limits`] was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// [`Limits::model_bytes`].
    ModelBytes,
    /// [`Limits::messages`].
    Messages,
    /// [`Limits::structure_bytes`].
    StructureBytes,
    /// [`Limits::nesting`].
    Nesting,
    /// [`Limits::rank`].
    Rank,
    /// [`Limits::tensor_bytes`].
    TensorBytes,
    /// [`Limits::dense_bytes`].
    DenseBytes,
    /// [`Limits::call_depth`].
    CallDepth,
    /// [`Limits::inlined_nodes`].
    InlinedNodes,
    /// [`Limits::sequence_entries`].
    SequenceEntries,
    /// [`Limits::operator_parts`].
    OperatorParts,
    /// [`Limits::shape_elements`].
    ShapeElements,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ModelBytes => "model_bytes",
            Self::Messages => "messages",
            Self::StructureBytes => "structure_bytes",
            Self::Nesting => "nesting",
            Self::Rank => "rank",
            Self::TensorBytes => "tensor_bytes",
            Self::DenseBytes => "dense_bytes",
            Self::CallDepth => "call_depth",
            Self::InlinedNodes => "inlined_nodes",
            Self::SequenceEntries => "sequence_entries",
            Self::OperatorParts => "operator_parts",
            Self::ShapeElements => "shape_elements",
        })
    }
}
