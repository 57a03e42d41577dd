//! Errors of a run: its inputs, its limits, and its ops.

use crate::fault::OpFault;
use kiln_symbolic_shape::EvaluateError;
use kiln_tensor::{DType, TensorError};
use std::fmt;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterpretError {
    /// E0810: a wrong number of inputs.
    #[error("expected {expected} inputs, found {found}")]
    InputCount {
        /// The graph's number.
        expected: usize,
        /// The given number.
        found: usize,
    },

    /// E0811: an input of the wrong element type.
    #[error("input {input}: expected {ty}, found elements of {found}")]
    InputDType {
        /// The input's name.
        input: String,
        /// Its type in the graph.
        ty: String,
        /// The element type given.
        found: DType,
    },

    /// E0812: an input of the wrong rank.
    #[error("input {input}: expected {ty}, found shape {found:?}")]
    InputRank {
        /// The input's name.
        input: String,
        /// Its type in the graph.
        ty: String,
        /// The shape given.
        found: Vec<usize>,
    },

    /// E0813: a size of an input differs from its declared type.
    #[error("{axis}: expected size {expression}{}, found {found}", value_of(.expression, .expected))]
    InputSize {
        /// Which axis.
        axis: InputAxis,
        /// The size as written in the type.
        expression: String,
        /// Its value, given the other sizes.
        expected: i64,
        /// The size given.
        found: usize,
    },

    /// E0814: two axes give one symbol two values.
    #[error(
        "{symbol} is {first_size} from {first}, {second_size} from {second}: expected equal sizes"
    )]
    SymbolConflict {
        /// The symbol.
        symbol: String,
        /// The axis that was read first.
        first: InputAxis,
        /// Its size.
        first_size: i64,
        /// The axis that disagrees.
        second: InputAxis,
        /// Its size.
        second_size: i64,
    },

    /// E0815: a symbol's value is outside its declared bounds or violates its divisor.
    #[error("expected {symbol} {expected}, found {given} from {source_of_value}")]
    SymbolBounds {
        /// The symbol.
        symbol: String,
        /// Its bounds, such as `in 1..=512` or `to be a multiple of 8`.
        expected: String,
        /// Its value.
        given: i64,
        /// The source of the value: an input's axis, or an op.
        source_of_value: String,
    },

    /// E0816: sizes violate a fact that the program relies on.
    #[error("expected {fact} ({origin}), found {given}")]
    FactViolated {
        /// The fact, in the text form.
        fact: String,
        /// What requires it.
        origin: String,
        /// The values of the symbols in it, and their sources.
        given: String,
    },

    /// E0817: a value that is not a tensor, which the interpreter cannot represent.
    #[error("{value}: expected a tensor, found {ty}: the interpreter supports only tensors")]
    NotATensor {
        /// The value.
        value: String,
        /// Its type.
        ty: String,
    },

    /// E0827: a size in an input's type or a fact cannot be evaluated.
    #[error("{what}: {error}")]
    Size {
        /// What was evaluated.
        what: String,
        /// Why it has no value.
        error: EvaluateError,
    },

    /// An input or an output could not be copied; has the code of the cause.
    #[error("{value}: {error}")]
    Tensor {
        /// The input or output.
        value: String,
        /// The problem.
        error: TensorError,
    },

    /// E0832: the values alive at once would take more memory than allowed.
    #[error(
        "expected at most {limit} bytes of live values, found {given} at {at}: raise the limit or use smaller shapes"
    )]
    LiveBytes {
        /// The op whose results exceed it.
        at: OpSite,
        /// The total.
        given: u64,
        /// The limit.
        limit: u64,
    },

    /// E0833: more iterations of loops than allowed.
    #[error("expected at most {limit} loop iterations, found more at {at}: raise the limit")]
    Iterations {
        /// The loop.
        at: OpSite,
        /// The limit of one run.
        limit: u64,
    },

    /// E0834: regions nested deeper than allowed.
    #[error("expected at most {limit} nested regions, found more at {at}")]
    RegionDepth {
        /// The op whose region exceeds the limit.
        at: OpSite,
        /// The limit.
        limit: usize,
    },

    /// E0835: the caller cancelled the call.
    #[error("cancelled")]
    Cancelled,

    /// Sizes that violate an op's requirement; has the code of the fault that the op would report.
    #[error("{problem} in {origin}")]
    Requirement {
        /// What was expected and found.
        problem: String,
        /// The op.
        origin: String,
        /// The code.
        code: &'static str,
    },

    /// An op could not be computed; has the code of the fault.
    #[error("{fault} in {at}")]
    Op {
        /// The op.
        at: OpSite,
        /// What went wrong.
        fault: Box<OpFault>,
    },
}

impl InterpretError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InputCount { .. } => "E0810",
            Self::InputDType { .. } => "E0811",
            Self::InputRank { .. } => "E0812",
            Self::InputSize { .. } => "E0813",
            Self::SymbolConflict { .. } => "E0814",
            Self::SymbolBounds { .. } => "E0815",
            Self::FactViolated { .. } => "E0816",
            Self::NotATensor { .. } => "E0817",
            Self::Size { .. } => "E0827",
            Self::Tensor { error, .. } => error.code(),
            Self::LiveBytes { .. } => "E0832",
            Self::Iterations { .. } => "E0833",
            Self::RegionDepth { .. } => "E0834",
            Self::Requirement { code, .. } => code,
            Self::Cancelled => "E0835",
            Self::Op { fault, .. } => fault.code(),
        }
    }
}

/// An axis of an input, in messages: `input ids axis 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputAxis {
    /// The input's name.
    pub input: String,
    /// The axis.
    pub axis: usize,
}

impl fmt::Display for InputAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input {} axis {}", self.input.escape_debug(), self.axis)
    }
}

/// An op, in messages: `add (p2o.Add.12)`, by its path in the source or otherwise its first result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpSite {
    /// The op's mnemonic.
    pub op: &'static str,
    /// Its source node, or its first result.
    pub origin: String,
}

impl fmt::Display for OpSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.op, self.origin.escape_debug())
    }
}

/// ` = value`, unless the expression is the value.
fn value_of(expression: &str, value: &i64) -> String {
    if expression.parse() == Ok(*value) {
        String::new()
    } else {
        format!(" = {value}")
    }
}
