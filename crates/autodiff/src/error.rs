//! Errors of differentiation: E0601 to E0609, E0613 and E0614.

use kiln_ir::VerifyErrors;
use kiln_shape_inference::InferError;
use kiln_symbolic_shape::DimError;
use kiln_tensor::DType;

/// A graph that cannot be differentiated as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// E0601: a requested input or output that does not exist.
    #[error("there is no {kind} {position}: the graph has {count}")]
    NoSuch {
        /// `input` or `output`.
        kind: &'static str,
        /// The requested position.
        position: usize,
        /// The number that exist.
        count: usize,
    },
    /// E0602: an input or output whose elements are not floats.
    #[error("{kind} `{name}` cannot be differentiated: expected a tensor of floats, found {found}")]
    NotFloat {
        /// `input` or `output`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Its type.
        found: String,
    },
    /// E0603: an output that needs a cotangent, because it has more than one element.
    #[error(
        "output `{name}` has type {found}: only a scalar is differentiated without a cotangent; reduce it to a scalar, or \
         request cotangents as inputs"
    )]
    NotScalar {
        /// The output's name.
        name: String,
        /// Its type.
        found: String,
    },
    /// E0604: an input that reaches the outputs only through an op without a derivative.
    #[error(
        "input `{input}` reaches the outputs only through {op}, which has no derivative; path: {path}; mark an operand with \
         `stop_gradient` if its gradient is to be zero"
    )]
    NotDifferentiable {
        /// The input's name.
        input: String,
        /// The first op on the path without a derivative.
        op: String,
        /// The ops from the input to an output.
        path: String,
    },
    /// E0605: a custom op without a registered gradient.
    #[error(
        "{op} has no gradient: register one for {name:?} with `GradientRules::register`, or mark its operands with \
         `stop_gradient`"
    )]
    NoCustomRule {
        /// The op's registered name.
        name: String,
        /// The op.
        op: String,
    },
    /// E0606: a custom gradient that did not return exactly one entry, a cotangent or `None`, per operand.
    #[error(
        "the gradient of {op} returned {found} cotangents, expected one entry for each of {expected} operands"
    )]
    CustomCount {
        /// The op.
        op: String,
        /// The number of operands.
        expected: usize,
        /// The number of entries.
        found: usize,
    },
    /// E0607: control flow that cannot be reversed.
    #[error("{op} cannot be differentiated: {reason}")]
    Control {
        /// The op.
        op: String,
        /// Why, with the values concerned.
        reason: String,
    },
    /// E0608: an op that is not implemented for the requested dtype or type of value.
    #[error("the gradient of {op} is not defined for {what}")]
    Unsupported {
        /// The op.
        op: String,
        /// The case.
        what: String,
    },
    /// E0613: a graph whose gradients are not those of its ops.
    #[error(
        "the graph was recorded with gradients of its own, which it does not contain: take gradients while it is recorded, \
         or compile it from its recording"
    )]
    OnlyRecorded,
    /// E0614: a custom gradient of a different dtype than its operand.
    #[error(
        "the gradient of {op}: expected a cotangent of dtype {expected} for operand {index}, found {found}"
    )]
    CustomType {
        /// The op.
        op: String,
        /// The operand, by position.
        index: usize,
        /// The operand's dtype.
        expected: DType,
        /// The cotangent's type.
        found: String,
    },
    /// A custom gradient that failed while it was recorded; has the code of the cause.
    #[error("{message}")]
    Backward {
        /// The reason.
        message: String,
        /// Its code.
        code: &'static str,
    },
    /// A graph that is not well formed: the verifier's code.
    #[error(transparent)]
    Invalid(#[from] VerifyErrors),
    /// An op of the gradient that does not fit: its own code.
    #[error("while differentiating {op}: {source}")]
    Infer {
        /// The op being differentiated.
        op: String,
        /// The cause.
        source: InferError,
    },
    /// E0609: a size of the gradient that cannot be computed.
    #[error("while differentiating {op}: {source}")]
    Size {
        /// The op being differentiated.
        op: String,
        /// The cause.
        source: DimError,
    },
}

impl GradientError {
    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuch { .. } => "E0601",
            Self::NotFloat { .. } => "E0602",
            Self::NotScalar { .. } => "E0603",
            Self::NotDifferentiable { .. } => "E0604",
            Self::NoCustomRule { .. } => "E0605",
            Self::CustomCount { .. } => "E0606",
            Self::Control { .. } => "E0607",
            Self::Unsupported { .. } => "E0608",
            Self::OnlyRecorded => "E0613",
            Self::CustomType { .. } => "E0614",
            Self::Backward { code, .. } => code,
            Self::Invalid(errors) => errors.code(),
            Self::Infer { source, .. } => source.code(),
            Self::Size { .. } => "E0609",
        }
    }

    /// The same error with this op, if the op was not known when the error arose.
    pub(crate) fn at(mut self, label: impl FnOnce() -> String) -> Self {
        if let Self::Infer { op, .. } | Self::Size { op, .. } = &mut self
            && op.is_empty()
        {
            *op = label();
        }
        self
    }
}

impl From<InferError> for GradientError {
    fn from(source: InferError) -> Self {
        let op = String::new();
        Self::Infer { op, source }
    }
}

impl From<DimError> for GradientError {
    fn from(source: DimError) -> Self {
        let op = String::new();
        Self::Size { op, source }
    }
}
