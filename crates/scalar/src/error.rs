//! Errors of an expression, and faults of its computation.

use kiln_tensor::DType;

/// An error of this crate. Each variant names its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScalarError {
    /// E0280: a wrong number of operands of an operation or function.
    #[error("`{name}` expects {expected} operands, found {found}")]
    Arity {
        /// The operation or function.
        name: &'static str,
        /// The number it takes.
        expected: usize,
        /// The number given.
        found: usize,
    },

    /// E0281: operands of dtypes that an operation does not accept.
    #[error("`{name}` expects {expected}, found {}: convert with `cast`", dtypes(.found))]
    OperandTypes {
        /// The operation.
        name: &'static str,
        /// What it accepts.
        expected: &'static str,
        /// What was given.
        found: Vec<DType>,
    },

    /// E0282: a number that the required dtype cannot represent.
    #[error("{dtype} cannot represent the number {value}: use a float dtype, or another parameter")]
    Literal {
        /// The number, printed.
        value: String,
        /// The dtype.
        dtype: DType,
    },

    /// E0283: a wrong number of inputs for an expression.
    #[error("expected {expected} inputs, found {found}")]
    InputCount {
        /// The expression's number.
        expected: usize,
        /// The given number.
        found: usize,
    },

    /// E0284: more parameters than a function has.
    #[error("`{name}` has {expected} parameters, found {found}")]
    ParameterCount {
        /// The function.
        name: &'static str,
        /// The number it has.
        expected: usize,
        /// The number given.
        found: usize,
    },

    /// E0285: an expression with a node that refers to a node that does not precede it.
    #[error("node {node} of the expression refers to {what}, which does not exist")]
    Dangling {
        /// The position of the node.
        node: usize,
        /// The reference.
        what: String,
    },

    /// E0286: a differentiation with respect to an input that the expression does not have.
    #[error("expected an input below {n_inputs}, found {input}")]
    InputOutOfRange {
        /// The input.
        input: usize,
        /// The number of inputs.
        n_inputs: usize,
    },

    /// E0287: an expression with more nodes than an id can number.
    #[error("the expression has more than {limit} nodes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },

    /// E0880: a block of a different dtype than the evaluator's.
    #[error("{what}: expected elements of {expected}, found {found}")]
    BlockType {
        /// Which block.
        what: String,
        /// The dtype of the evaluator.
        expected: DType,
        /// The block's dtype.
        found: DType,
    },

    /// E0881: a block of another length than the result.
    #[error("input {input}: expected {expected} elements or 1, found {found}")]
    BlockLength {
        /// Which input.
        input: usize,
        /// Elements of the result.
        expected: usize,
        /// Elements of the input.
        found: usize,
    },

    /// A computation without a value; its code is the fault's.
    #[error(transparent)]
    Fault(#[from] ScalarFault),
}

/// A computation that has no value. Compiled code reports the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ScalarFault {
    /// E0882: an integer divided by zero, or zero raised to a negative power.
    #[error("integer division by zero in `{op}`")]
    DivisionByZero {
        /// The operation.
        op: &'static str,
    },
}

impl ScalarError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ScalarError::Arity { .. } => "E0280",
            ScalarError::OperandTypes { .. } => "E0281",
            ScalarError::Literal { .. } => "E0282",
            ScalarError::InputCount { .. } => "E0283",
            ScalarError::ParameterCount { .. } => "E0284",
            ScalarError::Dangling { .. } => "E0285",
            ScalarError::InputOutOfRange { .. } => "E0286",
            ScalarError::TooLarge { .. } => "E0287",
            ScalarError::BlockType { .. } => "E0880",
            ScalarError::BlockLength { .. } => "E0881",
            ScalarError::Fault(fault) => fault.code(),
        }
    }
}

impl ScalarFault {
    /// The code of an integer divided by zero.
    pub const DIVISION_BY_ZERO: &str = "E0882";

    /// The fault's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ScalarFault::DivisionByZero { .. } => Self::DIVISION_BY_ZERO,
        }
    }
}

fn dtypes(found: &[DType]) -> String {
    found
        .iter()
        .map(|dtype| dtype.name())
        .collect::<Vec<_>>()
        .join(", ")
}
