//! Errors of shape inference: which op, which operands, both shapes.
//!
//! Names come from outside, so they are escaped before they are stored. Codes E0330 to E0349, E0360 to E0362, and E0804 for
//! numbers that a dtype cannot represent, shared with recorded functions.

use kiln_ir::VerifyErrors;
use kiln_symbolic_shape::DimError;
use kiln_tensor::{DType, TensorError};
use std::fmt;

use crate::number::Number;

/// An op whose types do not fit. Always a fault of the code that built the graph, or of its model.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct InferError {
    /// The op: its mnemonic, and the node it came from if known.
    pub at: Box<str>,
    /// The problem.
    pub kind: Box<InferErrorKind>,
}

impl InferError {
    /// An error at `at`, which is safe to print.
    pub fn new(at: impl Into<Box<str>>, kind: InferErrorKind) -> Self {
        Self {
            at: at.into(),
            kind: Box::new(kind),
        }
    }

    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

/// The kinds of type errors of an op.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferErrorKind {
    /// E0330: sizes that can be neither equal nor broadcast to each other.
    #[error(
        "cannot broadcast {left} with {right}: expected sizes that are equal or 1, found {left_size} and {right_size}"
    )]
    Broadcast {
        /// The first operand with its type.
        left: String,
        /// The second operand with its type.
        right: String,
        /// The first operand's size on the axis.
        left_size: String,
        /// The second operand's size on the axis.
        right_size: String,
    },
    /// E0331: sizes that must be equal and never are.
    #[error("{what} of {left} and {right} differ: expected {expected}, found {found}")]
    SizeConflict {
        /// Which sizes.
        what: String,
        /// The first operand with its type.
        left: String,
        /// The second operand with its type.
        right: String,
        /// The first operand's size.
        expected: String,
        /// The second operand's size.
        found: String,
    },
    /// E0332: an operand of a kind that the op does not accept.
    #[error("operand {index}: expected {expected}, found {found}")]
    Operand {
        /// Which operand.
        index: usize,
        /// What the op accepts.
        expected: String,
        /// What was given.
        found: String,
    },
    /// E0333: an attribute that is invalid for these operands.
    #[error("attribute {name}: expected {expected}, found {found}")]
    Attribute {
        /// The attribute.
        name: &'static str,
        /// What is valid.
        expected: String,
        /// What was given.
        found: String,
    },
    /// E0334: a size that is always negative.
    #[error("{what} is negative: expected at least 0, found {found}")]
    NegativeSize {
        /// Which size.
        what: String,
        /// The size.
        found: String,
    },
    /// E0335: a reshape that changes the number of elements.
    #[error("cannot reshape {operand} to {to}: expected {expected} elements, found {found}")]
    Reshape {
        /// The operand with its type.
        operand: String,
        /// The requested sizes.
        to: String,
        /// The operand's number of elements.
        expected: String,
        /// The requested number of elements.
        found: String,
    },
    /// E0336: a stated type that is not the one inferred.
    #[error("type of {what}: expected {expected}, found {found}{}", if *.disproved { "" } else { " (not proved equal; state the equality as a fact)" })]
    Annotation {
        /// The result or edge.
        what: String,
        /// The inferred type.
        expected: String,
        /// The stated type.
        found: String,
        /// Whether they are known to differ, rather than not known to be equal.
        disproved: bool,
    },
    /// E0337: a custom op that is not registered.
    #[error(
        "no custom operation is registered as {name:?}; register a rule for it with the engine"
    )]
    UnknownCustom {
        /// The name.
        name: String,
    },
    /// E0338: a limit was exceeded.
    #[error("{what}: {given} exceeds the limit of {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The value.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// E0339: an index that is always out of bounds.
    #[error("{what} of {operand} is out of bounds: expected {expected}, found {found}")]
    OutOfBounds {
        /// Which index.
        what: String,
        /// The operand with its type.
        operand: String,
        /// The bound.
        expected: String,
        /// The index.
        found: String,
    },
    /// E0360: no rule of the engine handles the op.
    #[error("no registered rule infers it; register one with the engine")]
    NoRule,
    /// E0361: a region whose edge does not match the op.
    #[error("{what}: expected {expected}, found {found}")]
    Region {
        /// Which edge.
        what: String,
        /// What the op requires.
        expected: String,
        /// What the region has.
        found: String,
    },
    /// E0362: a value read outside the region that defines it.
    #[error("operand {index}: {value} is not defined in this region; pass it in as a capture")]
    NotDefined {
        /// Which operand.
        index: usize,
        /// The value.
        value: String,
    },
    /// E0804: a number that a dtype cannot represent.
    #[error("expected a number that {dtype} can represent, found {number}")]
    Number {
        /// The dtype.
        dtype: DType,
        /// The number.
        number: Number,
    },
    /// A size that cannot be computed; the code is that of the cause.
    #[error(transparent)]
    Size(#[from] DimError),
    /// A constant that cannot be built; the code is that of the cause.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A finished graph that violates a structural rule; the code is that of the cause.
    #[error(transparent)]
    Structure(#[from] VerifyErrors),
}

impl InferErrorKind {
    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Broadcast { .. } => "E0330",
            Self::SizeConflict { .. } => "E0331",
            Self::Operand { .. } => "E0332",
            Self::Attribute { .. } => "E0333",
            Self::NegativeSize { .. } => "E0334",
            Self::Reshape { .. } => "E0335",
            Self::Annotation { .. } => "E0336",
            Self::UnknownCustom { .. } => "E0337",
            Self::Limit { .. } => "E0338",
            Self::OutOfBounds { .. } => "E0339",
            Self::NoRule => "E0360",
            Self::Region { .. } => "E0361",
            Self::NotDefined { .. } => "E0362",
            Self::Number { .. } => Number::NOT_HELD,
            Self::Size(cause) => cause.code(),
            Self::Tensor(cause) => cause.code(),
            Self::Structure(cause) => cause.code(),
        }
    }
}

/// All type errors of a graph; never empty.
#[derive(Debug, thiserror::Error)]
pub struct InferErrors(Vec<InferError>);

impl InferErrors {
    /// The errors as a result: `Ok` when there is none.
    pub(crate) fn check(errors: Vec<InferError>) -> Result<(), Self> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self(errors))
        }
    }

    /// The errors, in the order of the ops.
    pub fn errors(&self) -> &[InferError] {
        &self.0
    }

    /// The code of the first error.
    pub fn code(&self) -> &'static str {
        self.0.first().map_or("E0360", InferError::code)
    }
}

impl From<InferError> for InferErrors {
    fn from(error: InferError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for InferErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}[{}] {error}", error.code())?;
        }
        Ok(())
    }
}
