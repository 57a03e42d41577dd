//! The errors of compiling and running a program.

use std::sync::Arc;
use std::time::Duration;

use kiln_backend::{CompileError, ExecuteError, FaultCause, NumbersError};
use kiln_fusion::FusionError;
use kiln_interpreter::{InterpretError, OpFault, OpSite};
use kiln_kernel_cache::CacheError;
use kiln_program::ProgramError;
use kiln_scalar::ScalarFault;
use kiln_symbolic_shape::EvaluateError;
use kiln_tensor::TensorError;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Inputs that do not fit the graph, or an op that could not be computed; has the code of the cause.
    #[error(transparent)]
    Interpret(#[from] InterpretError),

    /// A fault of compiled code; has the code that the interpreter gives it.
    #[error("{problem} in {at}: {site}")]
    Fault {
        /// The op.
        at: OpSite,
        /// What happened.
        problem: &'static str,
        /// The reason.
        cause: FaultCause,
        /// Where in the kernel.
        site: String,
    },

    /// E0864: sizes for which an op has no result.
    #[error("{step}: expected {message} ({predicate}), found {found}")]
    Requirement {
        /// What requires it.
        step: String,
        /// The requirement.
        message: String,
        /// The same as a predicate on sizes.
        predicate: String,
        /// The values of the sizes in it.
        found: String,
    },

    /// E0865: a size that has no value for these inputs.
    #[error("{what}: {error}")]
    Size {
        /// The purpose of the size.
        what: String,
        /// The reason.
        error: EvaluateError,
    },

    /// A kernel could not be compiled; has the code of the backend's error.
    #[error("{0}")]
    Compile(Arc<CompileError>),

    /// A device operation failed; has the code of the executor's error.
    #[error("{context}: {error}")]
    Execute {
        /// The operation.
        context: String,
        /// The reason.
        error: Arc<ExecuteError>,
    },

    /// E0866: sizes for which the plan was not made, when no other plan can be made.
    #[error("expected {expected} in {origin}, and no other plan can be made: {reason}")]
    NoOtherPlan {
        /// What the plan expects.
        expected: String,
        /// What expects it.
        origin: String,
        /// The reason.
        reason: String,
    },

    /// E0867: the numbers of a launch have no value.
    #[error("cannot launch {kernel}: {error}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The reason.
        error: NumbersError,
    },

    /// E0868: a step that only compiled code can run, when no compiler can compile it.
    #[error("expected a compiler for {step}, found none: {reason}")]
    NotCompiled {
        /// The step.
        step: String,
        /// Why the interpreter cannot be used instead.
        reason: String,
    },

    /// E0869: a program, an artifact or a backend that contradicts itself: a defect.
    #[error("{problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },

    /// The plan of the program could not be made; has the code of the cause, or E0870 when that has none.
    #[error("cannot plan the program: {0}")]
    Plan(Arc<dyn std::error::Error + Send + Sync>),

    /// E0890: code was not ready in time; it is still being compiled.
    #[error(
        "kernel @{kernel} was not compiled within the limit; call again, or allow more time to compile"
    )]
    CompileTimeout {
        /// The kernel.
        kernel: String,
    },

    /// E0897: a plan was not ready in time; it is still being made.
    #[error(
        "a plan for sizes for which facts do not hold was not made within the limit; call again, or allow more time to compile"
    )]
    PlanTimeout,

    /// E0891: code that no store has, while compiling is disabled.
    #[error(
        "expected stored code for kernel @{kernel} (compiling is disabled), found none: {reason}"
    )]
    NotInCache {
        /// The kernel.
        kernel: String,
        /// The result of each store.
        reason: String,
    },

    /// E0893: the number of tensors to write outputs to differs from the number of outputs.
    #[error("expected {expected} tensors to write outputs to, found {found}")]
    OutputCount {
        /// The number of outputs.
        expected: usize,
        /// The number of tensors.
        found: usize,
    },

    /// E0898: inputs that a call cannot donate to its outputs.
    #[error(
        "expected inputs and outputs of the call, each donated once, found input {input} for output {output}{problem}"
    )]
    Donation {
        /// The input, by position.
        input: usize,
        /// The output that was to reuse its memory, by position.
        output: usize,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// E0894: a call that exceeded its time limit.
    #[error("expected the call to end within {limit:?}, found it still running")]
    CallTimeout {
        /// The limit.
        limit: Duration,
    },

    /// Another caller's compile had no result; has the code of the cache's error.
    #[error("kernel @{kernel}: {error}")]
    Cache {
        /// The kernel.
        kernel: String,
        /// The reason.
        error: CacheError,
    },

    /// A tensor could not be made; has the code of the cause.
    #[error("{context}: {error}")]
    Tensor {
        /// What it is.
        context: String,
        /// The reason.
        error: TensorError,
    },
}

impl RuntimeError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Interpret(error) => error.code(),
            Self::Fault {
                cause: FaultCause::DivisionByZero,
                ..
            } => ScalarFault::DIVISION_BY_ZERO,
            Self::Fault { .. } => OpFault::INDEX_OUT_OF_RANGE,
            Self::Requirement { .. } => "E0864",
            Self::Size { .. } => "E0865",
            Self::Compile(error) => error.code,
            Self::Execute { error, .. } => error.code,
            Self::NoOtherPlan { .. } => "E0866",
            Self::Launch { .. } => "E0867",
            Self::NotCompiled { .. } => "E0868",
            Self::Malformed { .. } => "E0869",
            Self::CompileTimeout { .. } => "E0890",
            Self::PlanTimeout => "E0897",
            Self::NotInCache { .. } => "E0891",
            Self::OutputCount { .. } => "E0893",
            Self::Donation { .. } => "E0898",
            Self::CallTimeout { .. } => "E0894",
            Self::Cache { error, .. } => error.code(),
            Self::Plan(cause) => code_of_plan(&**cause),
            Self::Tensor { error, .. } => error.code(),
        }
    }

    /// Whether memory could not be allocated.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Execute { error, .. } => error.out_of_memory,
            Self::Tensor { error, .. } => matches!(error, TensorError::Allocation { .. }),
            Self::Interpret(InterpretError::Op { fault, .. }) => {
                matches!(**fault, OpFault::Tensor(TensorError::Allocation { .. }))
            }
            _ => false,
        }
    }

    /// Whether the interpreter must not replace a kernel whose code caused this error.
    pub(crate) fn ends_the_call(&self) -> bool {
        matches!(
            self,
            Self::CompileTimeout { .. }
                | Self::PlanTimeout
                | Self::NotInCache { .. }
                | Self::CallTimeout { .. }
                | Self::Interpret(InterpretError::Cancelled)
        )
    }

    pub(crate) fn malformed(problem: impl Into<String>) -> Self {
        Self::Malformed {
            problem: problem.into(),
        }
    }

    pub(crate) fn execute(context: impl Into<String>) -> impl FnOnce(ExecuteError) -> Self {
        // Nothing is allocated unless there was an error.
        move |error| Self::Execute {
            context: context.into(),
            error: Arc::new(error),
        }
    }

    pub(crate) fn tensor(context: impl Into<String>) -> impl FnOnce(TensorError) -> Self {
        move |error| Self::Tensor {
            context: context.into(),
            error,
        }
    }
}

/// Kept unboxed while it is passed from level to level.
impl From<Box<RuntimeError>> for RuntimeError {
    fn from(error: Box<RuntimeError>) -> Self {
        *error
    }
}

/// The code of a planner's error, if it is one of Kiln's own planners.
fn code_of_plan(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> &'static str {
    let program = cause.downcast_ref::<ProgramError>().map(ProgramError::code);
    let fusion = || cause.downcast_ref::<FusionError>().map(FusionError::code);
    program.or_else(fusion).unwrap_or("E0870")
}

/// What happened, in words.
pub(crate) fn problem_of(cause: FaultCause) -> &'static str {
    match cause {
        FaultCause::DivisionByZero => "an integer is divided by zero",
        _ => "an index is out of range",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_fails_has_the_code_of_its_cause() {
        let fusion = FusionError::Cycle {
            region: "body".to_owned(),
        };
        let code = fusion.code();
        assert_ne!(code, "E0870");
        assert_eq!(RuntimeError::Plan(Arc::new(fusion)).code(), code);
        let other = std::io::Error::other("a planner of someone else's");
        assert_eq!(RuntimeError::Plan(Arc::new(other)).code(), "E0870");
    }
}
