//! Errors of training.

use crate::parallel::CollectiveError;
use kiln::internals::trace::TraceError;

/// Why a trainer cannot be built, or a step failed. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The step could not be recorded; has the code of the cause.
    #[error(transparent)]
    Record(#[from] TraceError),
    /// The step could not be loaded or run; has the code of the cause.
    #[error(transparent)]
    Kiln(#[from] kiln::Error),
    /// A tensor could not be made; has the code of the cause.
    #[error(transparent)]
    Tensor(#[from] kiln::internals::tensor::TensorError),
    /// E0621: two parameters, or a parameter and an input, with the same name.
    #[error("parameter `{name}` exists already: give each layer a name of its own")]
    DuplicateParameter {
        /// The name.
        name: String,
    },
    /// E0622: a parameter that the network does not have.
    #[error("there is no parameter `{name}`, expected one of: {known}")]
    UnknownParameter {
        /// The name.
        name: String,
        /// The parameters that exist.
        known: String,
    },
    /// E0623: a tensor that does not fit a parameter.
    #[error("parameter `{name}`: expected {expected}, found {found}")]
    ParameterType {
        /// The name.
        name: String,
        /// The parameter's dtype and shape.
        expected: String,
        /// The tensor's.
        found: String,
    },
    /// E0624: a network without parameters.
    #[error("expected a network with at least one parameter, found none")]
    NoParameters,
    /// E0626: a file of weights that cannot be read or written.
    #[error("cannot read or write {file}: {source}")]
    File {
        /// The file.
        file: String,
        /// The reason.
        source: std::io::Error,
    },
    /// E0627: a file that is not a weights file, or whose tensors Kiln cannot represent.
    #[error("{file}: expected a safetensors file of numbers, found a problem: {reason}")]
    Weights {
        /// The file.
        file: String,
        /// The problem.
        reason: String,
    },
    /// E0628: tensors that are not samples of one dataset.
    #[error("dataset tensor `{tensor}`: expected {expected}, found {found}")]
    Samples {
        /// The tensor's name.
        tensor: String,
        /// What is valid.
        expected: String,
        /// What was given.
        found: String,
    },
    /// E0629: batches without samples.
    #[error("expected batches of one sample or more, found {found}")]
    BatchSize {
        /// The sizes given.
        found: String,
    },
    /// E0630: a data thread that the system could not start.
    #[error("cannot start a thread that makes batches: {source}")]
    Thread {
        /// The reason.
        source: std::io::Error,
    },
    /// E0631: a dataset that failed.
    #[error("a batch cannot be made: {source}")]
    Data {
        /// The dataset's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// E0632: ranks that cannot train together.
    #[error("cannot train together: {0}")]
    Collective(#[from] CollectiveError),
    /// E0625: an initial value that makes no sense.
    #[error("parameter `{name}`: expected {expected}, found {found}")]
    Initial {
        /// The parameter.
        name: String,
        /// What is valid.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}

impl TrainError {
    /// The error of a dataset that cannot make a batch.
    pub fn data(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Data {
            source: source.into(),
        }
    }

    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Record(error) => error.code(),
            Self::Kiln(error) => error.code(),
            Self::Tensor(error) => error.code(),
            Self::DuplicateParameter { .. } => "E0621",
            Self::UnknownParameter { .. } => "E0622",
            Self::ParameterType { .. } => "E0623",
            Self::NoParameters => "E0624",
            Self::Initial { .. } => "E0625",
            Self::File { .. } => "E0626",
            Self::Weights { .. } => "E0627",
            Self::Samples { .. } => "E0628",
            Self::BatchSize { .. } => "E0629",
            Self::Thread { .. } => "E0630",
            Self::Data { .. } => "E0631",
            Self::Collective(_) => "E0632",
        }
    }
}
