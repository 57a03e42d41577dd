//! Errors of reduced precision: E0641 to E0644.

use kiln_tensor::TensorError;

/// A precision that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// E0641: a format that does not exist.
    #[error(
        "unknown format {found:?}: expected f32, bf16, f16, int8, int8-weights, int4-weights or int4-int8, the last three with \
         a group (int4-weights/32), zero points (int4-weights/zero-points), or both"
    )]
    UnknownFormat {
        /// The text.
        found: String,
    },
    /// E0642: a group of an odd number of rows, or of none.
    #[error("expected groups of an even number of rows, such as 32, found {found}")]
    Group {
        /// The number of rows.
        found: u32,
    },
    /// E0643: an invalid pattern of op names.
    #[error("{found:?} is no pattern of op names: {reason}")]
    Pattern {
        /// The text.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// E0644: a pattern that matches no product.
    #[error("no product is called {found:?}: the graph has {known}")]
    NoMatch {
        /// The pattern.
        found: String,
        /// The first products.
        known: String,
    },
    /// Quantised weights that cannot be stored: the tensor's code.
    #[error("while quantising the weights of {op}: {source}")]
    Tensor {
        /// The op.
        op: String,
        /// The cause.
        source: TensorError,
    },
}

impl PrecisionError {
    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownFormat { .. } => "E0641",
            Self::Group { .. } => "E0642",
            Self::Pattern { .. } => "E0643",
            Self::NoMatch { .. } => "E0644",
            Self::Tensor { source, .. } => source.code(),
        }
    }
}
