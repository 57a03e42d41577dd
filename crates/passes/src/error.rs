//! Why a pass could not finish.
//!
//! A pass that finds nothing to do is no error, nor a rewrite whose proof fails or for which memory is
//! short: the graph stays as it is there. What is left is a graph that is broken: as it came, or by a
//! pass, which is a defect of the pass and names it.

use kiln_ir::VerifyErrors;
use kiln_shape_inference::InferErrors;

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
