//! What can be wrong with a kernel.

use kiln_scalar::ScalarError;
use kiln_tensor::DType;

/// An error of the kernel form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// E0215: an id that the kernel does not have.
    #[error("expected a {kind} of this kernel, found number {index}")]
    Unknown {
        /// What kind of thing.
        kind: &'static str,
        /// Its number.
        index: usize,
    },
    /// E0216: not one index per axis.
    #[error("expected {expected} indices of {what}, found {found}")]
    IndexCount {
        /// What is indexed.
        what: String,
        /// The number of its axes.
        expected: usize,
        /// The number of indices given.
        found: usize,
    },
    /// E0217: an operation on operands of dtypes that it does not take.
    #[error("expected operands that `{op}` takes, found {found:?}")]
    OperandTypes {
        /// The operation.
        op: &'static str,
        /// The operands' dtypes.
        found: Vec<DType>,
    },
    /// E0218: a value of the wrong dtype.
    #[error("expected {expected} for {what}, found {found}")]
    DType {
        /// What the value is for.
        what: &'static str,
        /// The dtype it must have.
        expected: DType,
        /// The dtype it has.
        found: DType,
    },
    /// E0219: a number that a dtype lacks.
    #[error("expected a number that {dtype} holds, found {value}")]
    Literal {
        /// The number.
        value: f64,
        /// The dtype.
        dtype: DType,
    },
    /// E0220: a named function cannot take these operands or parameters.
    #[error("`{function}` cannot be called so: {source}")]
    Scalar {
        /// The function.
        function: &'static str,
        /// Why not.
        source: ScalarError,
    },
    /// E0221: a `carry` block inside another.
    #[error("expected the carry block to end before the next begins")]
    NestedCarry,
    /// E0222: the end of a `carry` block that did not begin.
    #[error("expected a carry block to end, found none open")]
    NoCarry,
    /// E0223: a `carry` block that did not end.
    #[error("expected the carry block to end before the kernel does")]
    OpenCarry,
}

impl KernelError {
    pub(crate) fn unknown(kind: &'static str, index: usize) -> Self {
        Self::Unknown { kind, index }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "E0215",
            Self::IndexCount { .. } => "E0216",
            Self::OperandTypes { .. } => "E0217",
            Self::DType { .. } => "E0218",
            Self::Literal { .. } => "E0219",
            Self::Scalar { .. } => "E0220",
            Self::NestedCarry => "E0221",
            Self::NoCarry => "E0222",
            Self::OpenCarry => "E0223",
        }
    }
}
