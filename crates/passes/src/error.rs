//! Errors of a pass.
//!
//! A pass without anything to do is not an error, nor is a rewrite whose proof fails or that would take too much
//! memory: the graph is then left unchanged. The only error is an invalid graph: either the input, or the output of a
//! pass, which is a defect of the named pass.

use kiln_ir::VerifyErrors;
use kiln_shape_inference::InferErrors;

/// An error of a pass or of the pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// E0290: the graph given to the pipeline is invalid, or a pass made it invalid.
    #[error("expected a valid graph {when}, found: {source}")]
    Verify {
        /// Before or after which pass.
        when: String,
        /// The verifier's errors.
        source: VerifyErrors,
    },
    /// E0291: the types of the graph given to the pipeline are wrong, or a pass made them wrong.
    #[error("expected types that follow from the operands {when}, found: {source}")]
    Types {
        /// Before or after which pass.
        when: String,
        /// The errors of shape inference.
        source: InferErrors,
    },
}

impl PassError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verify { .. } => "E0290",
            Self::Types { .. } => "E0291",
        }
    }
}
