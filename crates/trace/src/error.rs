//! Errors of recording a function.
//!
//! Operators return no `Result`: the first mistake is kept, with the line that caused it, and is returned as the
//! recording's error when the function returns.

use kiln_autodiff::GradientError;
use kiln_shape_inference::{InferError, Number};
use kiln_symbolic_shape::DimError;
use kiln_tensor::DType;
use std::fmt;
use std::panic::Location;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Operands that do not fit an op; has the code of the cause.
    #[error("{at}: {source}")]
    Op {
        /// Where the op is applied.
        at: CallSite,
        /// The reason.
        source: InferError,
    },
    /// A size computation that failed; has the code of the cause.
    #[error("{at}: {source}")]
    Size {
        /// Where.
        at: CallSite,
        /// The reason.
        source: DimError,
    },
    /// A gradient that cannot be recorded; has the code of the cause.
    #[error("{at}: {source}")]
    Gradient {
        /// Where it is taken.
        at: CallSite,
        /// The reason.
        source: GradientError,
    },
    /// E0883: a variable of another recording.
    #[error(
        "{at}: expected variables of one recording, found one of another; variables live as long as the call of the function"
    )]
    Foreign {
        /// Where it is used.
        at: CallSite,
    },
    /// A number combined with a variable whose element type cannot represent it; has the code for such numbers.
    #[error(
        "{at}: expected a number that {dtype} can represent, found {number}; cast the variable, or write the number as the type has it"
    )]
    Number {
        /// Where the number is used.
        at: CallSite,
        /// The variable's element type.
        dtype: DType,
        /// The number.
        number: String,
    },
    /// An op of a tape that could not be computed; has the code of the cause.
    #[error("{at}: in `{op}`: {message}")]
    Fault {
        /// Where the op is applied.
        at: CallSite,
        /// The op's mnemonic.
        op: &'static str,
        /// The reason.
        message: String,
        /// The code of the reason.
        code: &'static str,
    },
    /// E0888: a variable of a tape without a value.
    #[error(
        "{at}: expected a variable with a value, found one whose op, or one that it depends on, failed; the failure was \
         reported before"
    )]
    Failed {
        /// Where it is read.
        at: CallSite,
    },
    /// E0889: a gradient with respect to a variable that is not an input.
    #[error(
        "{at}: expected an input of the tape, found a variable computed from others; watch it, or take its gradient with \
         `Var::gradients`"
    )]
    NotAnInput {
        /// Where it is requested.
        at: CallSite,
    },
    /// E0899: a graph that cannot be continued.
    #[error("expected a graph without control flow to continue, found `{op}`")]
    ControlFlow {
        /// The op.
        op: &'static str,
    },
    /// A graph to be continued whose ops do not fit each other; has the code of the cause.
    #[error("the graph cannot be continued: {source}")]
    Continue {
        /// The reason.
        source: InferError,
    },
    /// E0615: a value with a custom gradient that depends on values other than the declared inputs.
    #[error(
        "{at}: expected a function of the given inputs alone, found one that also reads {name}, whose gradient would be \
         lost: add it to the inputs, or read its `stop_gradient`"
    )]
    Capture {
        /// Where the gradient is given.
        at: CallSite,
        /// The type of the value that is read.
        name: String,
    },
    /// E0884: a function without results.
    #[error("expected a function that gives at least one variable, found none")]
    NoResult,
    /// E0885: a wrong number of arguments.
    #[error("expected {expected} arguments, found {found}")]
    Arguments {
        /// The number that the function takes.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// E0886: a size to be inferred in a place where sizes cannot be inferred.
    #[error("{at}: expected a size, found `Size::INFER`, which only a reshape takes")]
    Inferred {
        /// Where.
        at: CallSite,
    },
    /// E0887: an argument with more axes than allowed.
    #[error("argument {index}: expected at most {limit} axes, found {given}")]
    Rank {
        /// Which argument.
        index: usize,
        /// Its rank.
        given: usize,
        /// The maximum number of axes of an argument.
        limit: usize,
    },
}

impl TraceError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Op { source, .. } => source.code(),
            Self::Size { source, .. } => source.code(),
            Self::Gradient { source, .. } => source.code(),
            Self::Foreign { .. } => "E0883",
            Self::Number { .. } => Number::NOT_HELD,
            Self::Fault { code, .. } => code,
            Self::Failed { .. } => "E0888",
            Self::NotAnInput { .. } => "E0889",
            Self::ControlFlow { .. } => "E0899",
            Self::Continue { source } => source.code(),
            Self::Capture { .. } => "E0615",
            Self::NoResult => "E0884",
            Self::Arguments { .. } => "E0885",
            Self::Inferred { .. } => "E0886",
            Self::Rank { .. } => "E0887",
        }
    }
}

/// A line of the recorded function. Prints as `src/main.rs:3:17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite(pub(crate) &'static Location<'static>);

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
