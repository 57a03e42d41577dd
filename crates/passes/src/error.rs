//! Why a pass could not finish.
//!
//! A pass that finds nothing to do, or a rewrite whose proof fails, is no error: the graph stays as
//! it is. An error is a limit of the layers below, or a graph that a pass broke, which is a defect
//! of the pass and names it.

use kiln_ir::VerifyErrors;
use kiln_shape_inference::InferErrors;
use kiln_symbolic_shape::DimError;
use kiln_tensor::TensorError;

/// An error of a pass or of the pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// E0290: the graph given to the pipeline is broken, or a pass broke it.
    #[error("expected a valid graph {when}, found: {source}")]
    Verify {
        /// Before or after which pass.
        when: String,
        /// What the verifier says.
        source: VerifyErrors,
    },
    /// E0291: the types of the graph given to the pipeline are wrong, or a pass broke them.
    #[error("expected types that follow from the operands {when}, found: {source}")]
    Types {
        /// Before or after which pass.
        when: String,
        /// What shape inference says.
        source: InferErrors,
    },
    /// A size could not be computed; the code is the cause's.
    #[error("cannot compute a size: {0}")]
    Dim(#[from] DimError),
    /// A constant could not be made; the code is the cause's.
    #[error("cannot make a constant: {0}")]
    Tensor(#[from] TensorError),
}

impl PassError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verify { .. } => "E0290",
            Self::Types { .. } => "E0291",
            Self::Dim(cause) => cause.code(),
            Self::Tensor(cause) => cause.code(),
        }
    }
}
