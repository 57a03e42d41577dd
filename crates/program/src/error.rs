//! The errors of building, writing and reading a program.

use kiln_symbolic_shape::DimError;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// E0836: a value that is not a tensor.
    #[error("expected only tensors in a compiled program, found {value}: {ty}; run it interpreted")]
    NotATensor {
        /// The value.
        value: String,
        /// Its type.
        ty: String,
    },
    /// E0837: a size of the program cannot be expressed.
    #[error("cannot express {what}: {source}")]
    Size {
        /// The purpose of the size.
        what: String,
        /// The reason.
        source: DimError,
    },
    /// E0838: a fusion plan that does not belong to the graph, or is incomplete.
    #[error("expected a plan of this graph, found {problem}")]
    Plan {
        /// What is wrong.
        problem: String,
    },
    /// E0839: fusion built a kernel that the verifier rejects: a defect of Kiln.
    #[error("kernel @{kernel} is not valid: {problem}")]
    Kernel {
        /// The kernel's name.
        kernel: String,
        /// The verifier's message.
        problem: String,
    },
    /// E0841: a stored program that is damaged.
    #[error("expected a stored program, found {problem}")]
    Damaged {
        /// What is wrong with it.
        problem: String,
    },
    /// E0842: a stored program of a different version.
    #[error("expected a stored program of format {expected}, found {found}; build it again")]
    Version {
        /// The format of this version of Kiln.
        expected: u32,
        /// The format found.
        found: u32,
    },
    /// E0843: a stored program that needs a missing constant.
    #[error("expected the constant {digest} with the stored program, found none")]
    MissingConstant {
        /// The constant's digest.
        digest: String,
    },
}

impl ProgramError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotATensor { .. } => "E0836",
            Self::Size { .. } => "E0837",
            Self::Plan { .. } => "E0838",
            Self::Kernel { .. } => "E0839",
            Self::Damaged { .. } => "E0841",
            Self::Version { .. } => "E0842",
            Self::MissingConstant { .. } => "E0843",
        }
    }

    pub(crate) fn plan(problem: impl Into<String>) -> Self {
        Self::Plan {
            problem: problem.into(),
        }
    }
}
