//! Classifies the errors of all layers into a few kinds, by what a caller can do about them.

use super::Failure;
use kiln_autodiff::GradientError;
use kiln_interpreter::{InterpretError, OpFault};
use kiln_ir::text::TextLimits;
use kiln_kernel_cache::CacheError;
use kiln_lazy_runtime::RuntimeError;
use kiln_precision::PrecisionError;
use kiln_program::ProgramError;
use kiln_shape_inference::{InferError, InferErrorKind};
use kiln_symbolic_shape::DimError;
use kiln_tensor::TensorError;
use kiln_trace::TraceError;
use std::fmt;
use std::io;

/// The kind of an [`Error`](crate::Error).
///
/// ```
/// let error = "1..x".parse::<kiln::Dim>().unwrap_err();
/// assert_eq!(error.kind(), kiln::ErrorKind::InvalidInput);
/// assert_eq!(error.kind().to_string(), "invalid input");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model, a tensor or an option is wrong: provide another.
    InvalidInput,
    /// The request is valid, but not (yet) supported by Kiln.
    Unsupported,
    /// A limit was exceeded: raise it if the source is trusted.
    Limit,
    /// Memory or another resource ran out: retry with less.
    Resource,
    /// The machine lacks something, or a file cannot be read: fix that.
    Environment,
    /// The caller asked to stop.
    Cancelled,
    /// A defect in Kiln: report it.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput => "invalid input",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
            Self::Resource => "resource",
            Self::Environment => "environment",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        })
    }
}

impl Failure {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotATensor { .. } | Self::NotCompiled { .. } | Self::SeveralGraphs => {
                ErrorKind::Unsupported
            }
            Self::Questions { .. } | Self::Capacity { .. } => ErrorKind::Limit,
            Self::BundleIsCode { .. }
            | Self::State { .. }
            | Self::SessionTensors { .. }
            | Self::NotADecoder { .. }
            | Self::StateLost { .. } => ErrorKind::InvalidInput,
            Self::Read { source, .. } => of_io(source.kind()),
            Self::Write { .. } => ErrorKind::Environment,
            #[cfg(feature = "onnx")]
            Self::Changed { .. } => ErrorKind::Environment,
            #[cfg(feature = "native")]
            Self::BundleVersion { .. } | Self::BundleTarget { .. } => ErrorKind::Environment,
            Self::Cache(error) => of_cache(error),
            Self::Text { code, .. } if *code == TextLimits::TOO_LONG => ErrorKind::Limit,
            Self::Text { .. } => ErrorKind::InvalidInput,
            Self::Dim { source, .. } | Self::Symbol(source) => of_dim(source),
            Self::Infer(error) => of_infer(error),
            Self::InferAll(errors) => errors
                .errors()
                .first()
                .map_or(ErrorKind::InvalidInput, of_infer),
            Self::Tensor(error) => of_tensor(error),
            // The graph was verified before the passes ran.
            Self::Pass(_) => ErrorKind::Internal,
            Self::Trace(error) => of_trace(error),
            Self::Gradient(error) => of_gradient(error),
            Self::Precision(error) => of_precision(error),
            // The plan was verified too: any other failure there is a defect.
            Self::Fusion(_) | Self::Panicked { .. } => ErrorKind::Internal,
            Self::Program(error) => of_program(error),
            Self::Compile(error) => of_compile(error.code),
            #[cfg(feature = "llvm")]
            Self::Worker(error) => of_compile(error.code()),
            #[cfg(feature = "remote")]
            Self::Remote(error) => of_remote(error),
            Self::Run(error) => of_interpret(error),
            Self::Runtime(error) => of_runtime(error),
            #[cfg(feature = "native")]
            Self::Count { given: 0, .. } => ErrorKind::InvalidInput,
            #[cfg(feature = "native")]
            Self::Count { .. } => ErrorKind::Limit,
            #[cfg(feature = "native")]
            Self::NotDeterministic { .. } => ErrorKind::InvalidInput,
            Self::UnknownTarget { .. } => ErrorKind::Environment,
            #[cfg(feature = "native")]
            Self::Device { .. } => ErrorKind::Environment,
            #[cfg(feature = "onnx")]
            Self::Onnx(error) => of_onnx(error),
            Self::MissingInput { .. }
            | Self::UnknownInput { .. }
            | Self::InputType { .. }
            | Self::Index { .. }
            | Self::UnknownOutput { .. }
            | Self::UnknownFormat { .. }
            | Self::MemoryBudget { .. }
            | Self::UnknownDim { .. }
            | Self::Size { .. }
            | Self::UnknownStage { .. }
            | Self::UnknownName { .. }
            | Self::DeviceKey { .. }
            | Self::DimText { .. }
            | Self::UnknownRank { .. }
            | Self::UnknownValue { .. }
            | Self::Results { .. }
            | Self::NotImported { .. }
            | Self::NoGradient { .. }
            | Self::Backward { .. }
            | Self::Verify(_)
            | Self::Evaluate(_) => ErrorKind::InvalidInput,
        }
    }
}

/// The kind of a file that cannot be read or written.
fn of_io(kind: io::ErrorKind) -> ErrorKind {
    match kind {
        io::ErrorKind::OutOfMemory => ErrorKind::Resource,
        _ => ErrorKind::Environment,
    }
}

fn of_trace(error: &TraceError) -> ErrorKind {
    match error {
        TraceError::Op { source, .. } => of_infer(source),
        TraceError::Size { source, .. } => of_dim(source),
        TraceError::Gradient { source, .. } => of_gradient(source),
        TraceError::Rank { .. } => ErrorKind::Limit,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_dim(error: &DimError) -> ErrorKind {
    match error {
        DimError::Limit { .. } => ErrorKind::Limit,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_gradient(error: &GradientError) -> ErrorKind {
    match error {
        GradientError::Infer { source, .. } => of_infer(source),
        GradientError::Size { source, .. } => of_dim(source),
        GradientError::NoCustomRule { .. }
        | GradientError::Unsupported { .. }
        | GradientError::Control { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_precision(error: &PrecisionError) -> ErrorKind {
    match error {
        PrecisionError::Tensor { source, .. } => of_tensor(source),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_infer(error: &InferError) -> ErrorKind {
    match &*error.kind {
        InferErrorKind::Limit { .. } => ErrorKind::Limit,
        InferErrorKind::UnknownCustom { .. } => ErrorKind::Unsupported,
        InferErrorKind::Size(cause) => of_dim(cause),
        InferErrorKind::Tensor(cause) => of_tensor(cause),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_tensor(error: &TensorError) -> ErrorKind {
    match error {
        TensorError::Allocation { .. } => ErrorKind::Resource,
        TensorError::Deferred(_) => ErrorKind::Environment,
        TensorError::ReservedDType { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_interpret(error: &InterpretError) -> ErrorKind {
    match error {
        InterpretError::LiveBytes { .. }
        | InterpretError::Iterations { .. }
        | InterpretError::RegionDepth { .. } => ErrorKind::Limit,
        InterpretError::Cancelled => ErrorKind::Cancelled,
        InterpretError::NotATensor { .. } => ErrorKind::Unsupported,
        InterpretError::Tensor { error, .. } => of_tensor(error),
        InterpretError::Op { fault, .. } => of_fault(fault),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_fault(fault: &OpFault) -> ErrorKind {
    match fault {
        OpFault::Tensor(error) => of_tensor(error),
        OpFault::UnknownCustomOp { .. } => ErrorKind::Unsupported,
        // The graph was verified before it ran.
        OpFault::ResultMismatch { .. } | OpFault::Malformed { .. } => ErrorKind::Internal,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_program(error: &ProgramError) -> ErrorKind {
    match error {
        ProgramError::NotATensor { .. } => ErrorKind::Unsupported,
        ProgramError::Size { source, .. } => of_dim(source),
        _ => ErrorKind::Internal,
    }
}

/// The codes belong to the backends; those that are not defects of Kiln are listed here.
fn of_compile(code: &str) -> ErrorKind {
    match code {
        "E0501" | "E0507" | "E0508" | "E0513" | "E0516" | "E0551" => ErrorKind::Environment,
        "E0510" | "E0512" | "E0553" => ErrorKind::Limit,
        "E0511" => ErrorKind::Resource,
        "E0515" => ErrorKind::Cancelled,
        "E0505" | "E0517" | "E0555" => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    }
}

fn of_runtime(error: &RuntimeError) -> ErrorKind {
    if error.is_out_of_memory() {
        return ErrorKind::Resource;
    }
    match error {
        RuntimeError::Interpret(error) => of_interpret(error),
        RuntimeError::Fault { .. }
        | RuntimeError::Requirement { .. }
        | RuntimeError::OutputCount { .. }
        | RuntimeError::Size { .. } => ErrorKind::InvalidInput,
        RuntimeError::Compile(error) => of_compile(error.code),
        RuntimeError::NoOtherPlan { .. } | RuntimeError::NotCompiled { .. } => {
            ErrorKind::Unsupported
        }
        RuntimeError::Launch { .. }
        | RuntimeError::CompileTimeout { .. }
        | RuntimeError::PlanTimeout
        | RuntimeError::CallTimeout { .. } => ErrorKind::Limit,
        RuntimeError::NotInCache { .. } => ErrorKind::Environment,
        // Errors of files: a damaged bundle, elements that cannot be loaded.
        RuntimeError::Execute { error, .. }
            if ["E0707", "E0708", "E0709", "E0943"].contains(&error.code) =>
        {
            ErrorKind::Environment
        }
        RuntimeError::Execute { error, .. } if error.is_device_lost() => ErrorKind::Environment,
        // A missing library, code for another GPU, or a builtin that no executor runs.
        RuntimeError::Execute { error, .. } if ["E0551", "E0566"].contains(&error.code) => {
            ErrorKind::Environment
        }
        RuntimeError::Execute { error, .. } if error.code == "E0567" => ErrorKind::Unsupported,
        RuntimeError::Cache { error, .. } => of_cache(error),
        RuntimeError::Plan(cause) => match cause.downcast_ref::<ProgramError>() {
            Some(error) => of_program(error),
            None => ErrorKind::Internal,
        },
        RuntimeError::Tensor { error, .. } => of_tensor(error),
        _ => ErrorKind::Internal,
    }
}

#[cfg(feature = "remote")]
fn of_remote(error: &kiln_remote_store::RemoteError) -> ErrorKind {
    use kiln_remote_store::RemoteError;
    match error {
        RemoteError::Address { .. } => ErrorKind::InvalidInput,
        RemoteError::NotBuiltIn { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Resource,
    }
}

fn of_cache(error: &CacheError) -> ErrorKind {
    match error {
        CacheError::Cancelled { .. } => ErrorKind::Cancelled,
        CacheError::Timeout { .. } => ErrorKind::Limit,
        CacheError::Folder { .. }
        | CacheError::Io { .. }
        | CacheError::Bundle { .. }
        | CacheError::BundleFormat { .. }
        | CacheError::BundleSeal { .. }
        | CacheError::KeyFile { .. } => ErrorKind::Environment,
        CacheError::BundleIo { kind, .. } => of_io(*kind),
        _ => ErrorKind::Internal,
    }
}

#[cfg(feature = "onnx")]
fn of_onnx(error: &kiln_onnx::Error) -> ErrorKind {
    use kiln_onnx::{Error, FileError};
    match error {
        Error::Limit { .. } => ErrorKind::Limit,
        Error::File {
            source: FileError::Io(error),
            ..
        }
        | Error::ExternalFile {
            source: FileError::Io(error),
            ..
        } => of_io(error.kind()),
        Error::UnsupportedElement { .. }
        | Error::UnsupportedOperators { .. }
        | Error::Unsupported { .. }
        | Error::InputType { .. }
        | Error::Opset { .. } => ErrorKind::Unsupported,
        Error::Infer { source, .. } => of_infer(source),
        Error::Size { source, .. } => of_dim(source),
        Error::Tensor { source, .. } => of_tensor(source),
        _ => ErrorKind::InvalidInput,
    }
}
