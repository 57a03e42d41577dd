//! The errors of evaluating a kernel.

use kiln_scalar::ScalarError;
use kiln_tensor::{DType, TensorError};

/// Why a kernel has no result for these sizes and buffers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// E0260: a wrong number of symbol values.
    #[error("expected {expected} values of symbols, found {found}")]
    SymbolCount {
        /// The number of symbols.
        expected: usize,
        /// The number of values.
        found: usize,
    },
    /// E0261: a wrong number of tensors.
    #[error("expected {expected} buffers, found {found}")]
    BufferCount {
        /// The number of buffers.
        expected: usize,
        /// The number of tensors.
        found: usize,
    },
    /// E0262: a tensor whose dtype differs from its buffer's.
    #[error("expected %{buffer} of {expected}, found {found}")]
    BufferType {
        /// The buffer.
        buffer: String,
        /// Its dtype.
        expected: DType,
        /// The tensor's.
        found: DType,
    },
    /// E0263: a tensor whose shape differs from its buffer's.
    #[error("expected %{buffer} of shape {expected:?}, found {found:?}")]
    BufferShape {
        /// The buffer.
        buffer: String,
        /// Its shape for these sizes.
        expected: Vec<i64>,
        /// The tensor's.
        found: Vec<usize>,
    },
    /// E0264: an index outside of a buffer or a local, which is a fault.
    #[error(
        "expected an index from 0 to {size} (exclusive) on axis {axis} of {what}, found {index}"
    )]
    IndexOutOfRange {
        /// What is indexed.
        what: String,
        /// The axis.
        axis: usize,
        /// The index.
        index: i64,
        /// The size of the axis.
        size: i64,
    },
    /// E0265: an element that plain stores do not write exactly once.
    #[error(
        "expected every element of %{buffer} to be written once, found {index:?} written {times} times"
    )]
    NotWrittenOnce {
        /// The buffer.
        buffer: String,
        /// The element.
        index: Vec<usize>,
        /// How often it was written.
        times: u32,
    },
    /// E0266: a local too large for memory.
    #[error("the values of `{stage}` do not fit into memory")]
    Memory {
        /// The stage.
        stage: String,
    },
    /// E0267: a kernel that the verifier rejects.
    #[error("expected a kernel that the verifier accepts, found {what}")]
    Unverified {
        /// What is wrong.
        what: String,
    },
    /// A size without a value, or sizes that contradict the kernel's facts.
    #[error(transparent)]
    Size(#[from] kiln_symbolic_shape::EvaluateError),
    /// An operation on operands that it does not accept, or a fault.
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    /// A tensor that cannot be read or made.
    #[error("%{buffer}: {source}")]
    Tensor {
        /// The buffer.
        buffer: String,
        /// The reason.
        source: TensorError,
    },
}

impl EvaluateError {
    pub(super) fn unverified(what: impl Into<String>) -> Self {
        Self::Unverified { what: what.into() }
    }

    /// Whether the error is in the data rather than in the kernel: compiled code reports it as a fault.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::IndexOutOfRange { .. } | Self::Scalar(ScalarError::Fault(_))
        )
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SymbolCount { .. } => "E0260",
            Self::BufferCount { .. } => "E0261",
            Self::BufferType { .. } => "E0262",
            Self::BufferShape { .. } => "E0263",
            Self::IndexOutOfRange { .. } => "E0264",
            Self::NotWrittenOnce { .. } => "E0265",
            Self::Memory { .. } => "E0266",
            Self::Unverified { .. } => "E0267",
            Self::Size(error) => error.code(),
            Self::Scalar(error) => error.code(),
            Self::Tensor { source, .. } => source.code(),
        }
    }
}
