//! Faults of an op, before the op is named.

use kiln_scalar::ScalarError;
use kiln_symbolic_shape::EvaluateError;
use kiln_tensor::{DType, Tensor, TensorError};
use std::fmt;

/// A fault of one op. [`InterpretError::Op`](crate::InterpretError::Op) adds where it happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpFault {
    /// E0820: two sizes to be broadcast differ, and neither is 1.
    #[error("cannot broadcast {left} with {right}")]
    Broadcast {
        /// One operand.
        left: Box<OperandDescription>,
        /// The other.
        right: Box<OperandDescription>,
    },

    /// E0821: two sizes that must be equal are not.
    #[error(
        "expected {what} of equal size, found {left_size} in {left} and {right_size} in {right}"
    )]
    SizeMismatch {
        /// Which axes.
        what: &'static str,
        /// One operand.
        left: Box<OperandDescription>,
        /// Its size.
        left_size: usize,
        /// The other operand.
        right: Box<OperandDescription>,
        /// Its size.
        right_size: usize,
    },

    /// E0822: an index outside the axis it addresses.
    #[error(
        "expected an index into an axis of size {size}, found {index} at position {position} of the indices"
    )]
    IndexOutOfRange {
        /// The index.
        index: i64,
        /// Its position among the indices, counted in row-major order.
        position: usize,
        /// The size of the axis.
        size: usize,
    },

    /// E0823: a negative size or padding.
    #[error("expected {what} of at least 0, found {value}")]
    Negative {
        /// Its meaning.
        what: &'static str,
        /// Its value.
        value: i128,
    },

    /// E0824: an operation that requires a non-empty axis met an empty one.
    #[error("expected an axis with elements for {what}, found an empty one in {operand}")]
    EmptyAxis {
        /// The operation.
        what: &'static str,
        /// The operand.
        operand: Box<OperandDescription>,
    },

    /// E0825: more was requested than exists, or than is allowed.
    #[error("expected at most {limit} {what}, found {given}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The request.
        given: u64,
        /// The maximum.
        limit: u64,
    },

    /// An element-wise function without a value for some operand (a division by zero), or that does not accept operands of
    /// these dtypes; has the code of the cause.
    #[error(transparent)]
    Scalar(#[from] ScalarError),

    /// E0827: a size among the attributes has no value for these inputs.
    #[error(transparent)]
    Size(#[from] EvaluateError),

    /// A tensor could not be made or viewed; has the code of the cause.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    /// E0828: a result does not have the graph's type.
    #[error("expected a result of {expected}, found {found}")]
    ResultMismatch {
        /// The declared type, its sizes evaluated.
        expected: String,
        /// The computed type.
        found: String,
    },

    /// E0829: attributes or operands that the verifier rejects.
    #[error("{problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },

    /// E0835: the caller stopped the run.
    #[error("the run was cancelled")]
    Stopped,

    /// E0830: no op is registered under this name.
    #[error("expected custom op {} to be registered in the options, found none", .name.escape_debug())]
    UnknownCustomOp {
        /// The name.
        name: String,
    },

    /// E0831: a custom op reported an error.
    #[error("custom op {} failed: {message}", .name.escape_debug())]
    CustomOp {
        /// The op's name.
        name: String,
        /// Its message.
        message: String,
    },
}

impl OpFault {
    /// The code of an index outside the axis it addresses.
    pub const INDEX_OUT_OF_RANGE: &str = "E0822";
    /// The code of sizes that do not broadcast.
    pub const BROADCAST: &str = "E0820";
    /// The code of sizes that are not equal.
    pub const SIZE_MISMATCH: &str = "E0821";
    /// The code of a negative size or padding.
    pub const NEGATIVE: &str = "E0823";
    /// The code of an empty axis.
    pub const EMPTY_AXIS: &str = "E0824";
    /// The code of a request beyond the maximum.
    pub const LIMIT: &str = "E0825";
    /// The code of a size without a value.
    pub const SIZE: &str = "E0827";
    /// The code of malformed ops.
    pub const MALFORMED: &str = "E0829";

    /// The fault's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Broadcast { .. } => Self::BROADCAST,
            Self::SizeMismatch { .. } => Self::SIZE_MISMATCH,
            Self::IndexOutOfRange { .. } => Self::INDEX_OUT_OF_RANGE,
            Self::Negative { .. } => Self::NEGATIVE,
            Self::EmptyAxis { .. } => Self::EMPTY_AXIS,
            Self::Limit { .. } => Self::LIMIT,
            Self::Scalar(error) => error.code(),
            Self::Size(_) => Self::SIZE,
            Self::Tensor(error) => error.code(),
            Self::ResultMismatch { .. } => "E0828",
            Self::Malformed { .. } => Self::MALFORMED,
            Self::Stopped => "E0835",
            Self::UnknownCustomOp { .. } => "E0830",
            Self::CustomOp { .. } => "E0831",
        }
    }

    pub(crate) fn malformed(problem: impl Into<String>) -> Self {
        Self::Malformed {
            problem: problem.into(),
        }
    }
}

/// An operand in messages: `%a f32[1, 8, 2, 2]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandDescription {
    /// The value's name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
}

impl OperandDescription {
    pub(crate) fn new(name: String, tensor: &Tensor) -> Self {
        Self {
            name,
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        }
    }
}

impl fmt::Display for OperandDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{:?}",
            self.name.escape_debug(),
            self.dtype,
            self.shape
        )
    }
}
