//! Why a kernel has no code.

use std::fmt;
use std::sync::Arc;

use kiln_backend::{CompileError, ExecuteError};
use kiln_kernel_cache::Failure;

use crate::error::RuntimeError;

/// The reason for a compile without a result.
#[derive(Clone, Debug)]
pub(crate) enum KernelFailure {
    Compile(Arc<CompileError>),
    Load(Arc<ExecuteError>, String),
}

impl KernelFailure {
    /// Whether the compile was ended because no call needed it any longer.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Compile(error) if error.code == CompileError::CANCELLED)
    }
}

impl fmt::Display for KernelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => error.fmt(f),
            Self::Load(error, _) => error.fmt(f),
        }
    }
}

impl From<KernelFailure> for RuntimeError {
    fn from(failure: KernelFailure) -> Self {
        match failure {
            KernelFailure::Compile(error) => Self::Compile(error),
            KernelFailure::Load(error, kernel) => Self::Execute {
                context: format!("cannot load kernel @{kernel}"),
                error,
            },
        }
    }
}

/// A failure of the cache as an error of the call for a kernel.
pub(crate) fn error_of(kernel: &str, failure: Failure<KernelFailure>) -> RuntimeError {
    match failure {
        Failure::Compile { error, .. } => RuntimeError::from((*error).clone()),
        Failure::Cache(error) => RuntimeError::Cache {
            kernel: kernel.to_owned(),
            error,
        },
    }
}
