//! The facade's error: its kind, a stable code, and the message of the layer below.
//!
//! Users match on [`Error::kind`] and look codes up; the error enums of the crates below can therefore grow.

mod kind;

pub use kind::ErrorKind;

use kiln_autodiff::GradientError;
use kiln_backend::CompileError;
use kiln_fusion::FusionError;
use kiln_interpreter::{InterpretError, OpFault};
use kiln_ir::VerifyErrors;
use kiln_kernel_cache::CacheError;
use kiln_lazy_runtime::RuntimeError;
use kiln_passes::PassError;
use kiln_precision::PrecisionError;
use kiln_program::ProgramError;
use kiln_shape_inference::{InferError, InferErrors};
use kiln_symbolic_shape::text::{Diagnostic, Diagnostics};
use kiln_symbolic_shape::{DimError, EvaluateError};
use kiln_tensor::TensorError;
use kiln_trace::TraceError;
use std::fmt;

/// Why something could not be done.
///
/// ```
/// use kiln::{ErrorKind, Model, Source, Tensor};
///
/// let model = Model::load(Source::text("graph @id(%x: f32[N, 3]) -> f32[N, 3] { return %x }"))?;
/// let error = model.run([("x", &Tensor::zeros(kiln::DType::I64, &[1, 3])?)]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(error.code(), "E0873");
/// assert_eq!(error.to_string(), "input x: expected f32[N, 3], given i64[1, 3]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Error(Box<Failure>);

impl Error {
    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// The description of the error.
    pub(crate) fn failure(&self) -> &Failure {
        &self.0
    }

    /// The stable code, such as `E0873`; the book documents each.
    pub fn code(&self) -> &'static str {
        self.0.code()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.code(), self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The description of the error. Names in it are already escaped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// E0871: a call lacks an input.
    #[error("missing input {expected}; pass a tensor for it")]
    MissingInput { expected: String },
    /// E0872: a call names an input that the model does not have, or names one twice.
    #[error("{problem} input `{name}`, expected each of these once: {expected}")]
    UnknownInput {
        problem: &'static str,
        name: String,
        expected: String,
    },
    /// E0873: an input whose dtype or rank is not what the model takes.
    #[error("input {name}: expected {expected}, given {given}")]
    InputType {
        name: String,
        expected: String,
        given: String,
    },
    /// E0822: an index in an input that is out of range.
    #[error(
        "input {input}: expected {expected}, found {index} at {at}; {op} looks them up in {indexed}"
    )]
    Index {
        input: String,
        expected: String,
        index: i128,
        at: String,
        op: String,
        indexed: String,
    },
    /// E0874: a request for an output that the model does not have.
    #[error("unknown output `{name}`, expected one of: {expected}")]
    UnknownOutput { name: String, expected: String },
    /// E0875: a pair of an input and an output that a session cannot hold.
    #[error("expected {expected} for the state `{input}` of a session, found {found}")]
    State {
        input: String,
        expected: &'static str,
        found: String,
    },
    /// E0877: the wrong number of tensors for the inputs or outputs of a session that are not states.
    #[error("expected {expected} {what} besides the states of the session, found {found}")]
    SessionTensors {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    /// E0876: a session whose state was being written when a call failed.
    #[error("the states {names} were being written when a call failed: set them again")]
    StateLost { names: String },
    /// E0878: a model whose inputs and outputs are not those of a decoder.
    #[error("expected a decoder with {expected}, found {found}")]
    NotADecoder {
        expected: &'static str,
        found: String,
    },
    /// E0879: states that would have to hold more than they may.
    #[error("expected states of at most {limit} entries along `{axis}`, found a need for {given}")]
    Capacity {
        axis: String,
        given: usize,
        limit: usize,
    },
    /// E0971: a file extension that is not that of a known kind of model.
    #[error("unknown kind of model file: expected a name that ends in {expected}, found {found}")]
    UnknownFormat {
        expected: &'static str,
        found: String,
    },
    /// E0972: an option names a dimension that the model does not have.
    #[error("unknown dimension `{name}`, {expected}")]
    UnknownDim { name: String, expected: String },
    /// E0973: a stage that does not exist.
    #[error("unknown stage `{name}`, expected one of: {expected}")]
    UnknownStage { name: String, expected: String },
    /// E0974: a device, or a place to compile, that this build does not have.
    #[error("unknown {what} `{name}`, expected one of: {expected}")]
    UnknownName {
        what: &'static str,
        name: String,
        expected: String,
    },
    /// E0974: an invalid or taken key for a device.
    #[error("invalid device key `{name}`: {problem}")]
    DeviceKey { name: String, problem: &'static str },
    /// E0998: a known device that is unavailable.
    #[cfg(feature = "native")]
    #[error("device {device} cannot be used: {problem}")]
    Device {
        device: String,
        problem: crate::device::DeviceProblem,
    },
    /// E0975: a text that is not a constraint on a dimension.
    #[error(
        "expected a constraint such as `8`, `1..512`, `%8` or `1..512 % 8 ~ 128`, found `{text}`"
    )]
    DimText { text: String },
    /// E0976: a request that needs the rank of an input, which is unknown.
    #[error("the rank of input {name} is unknown; set it with `Import::rank`")]
    UnknownRank { name: String },
    /// E0995: a request that needs a single graph, of a model whose graph depends on data.
    #[error(
        "the model's graph depends on data, such as the branch that an `If` takes: it is known only during a call"
    )]
    SeveralGraphs,
    /// E0996: a call whose graph depends on too much.
    #[error(
        "expected a graph that depends on at most {limit} conditions and trip counts, found more; \
         fix the inputs that decide them with `Import::fix`"
    )]
    Questions { limit: usize },
    /// E0977: a file could not be read.
    #[error("cannot read {file}: {source}")]
    Read {
        file: String,
        source: std::io::Error,
    },
    /// E0978: an option that cannot be satisfied.
    #[error("dimension {name}: {source}")]
    Dim { name: String, source: DimError },
    /// E0978: a size for a call that a dimension does not allow.
    #[error("dimension {name}: expected {expected}, found {size}")]
    Size {
        name: String,
        size: i64,
        expected: String,
    },
    /// E0979: an input or output that is not a tensor.
    #[error("{name} is {found}: inputs and outputs other than tensors are not supported yet")]
    NotATensor { name: String, found: String },
    /// E0980: a level that a device does not have, or that this machine cannot run.
    #[error(
        "cannot compile for `{name}` on device {device}, expected one of its levels: {expected}"
    )]
    UnknownTarget {
        name: String,
        device: String,
        expected: String,
    },
    /// E0970: a memory budget that is not a part of the whole.
    #[error("expected a memory budget from 0 to 1 times what is needed, given {given}")]
    MemoryBudget { given: String },
    /// E0981: a number of threads or plans out of range.
    #[cfg(feature = "native")]
    #[error("expected {bound} {limit} {what}, given {given}")]
    Count {
        bound: &'static str,
        limit: usize,
        what: &'static str,
        given: usize,
    },
    /// E0982: a value or op that is not in the graph.
    #[error("unknown op or value `{name}`, expected the name of one: {expected}")]
    UnknownValue { name: String, expected: String },
    /// E0983: a request for something that only compiled code has, of an interpreted model.
    #[error("{what} needs compiled code, and this model is interpreted; {next}")]
    NotCompiled {
        what: &'static str,
        next: &'static str,
    },
    /// E0984: a recorded function that returns a different number of results than before.
    #[error(
        "function {name} returned {found} results, a different number than when it was recorded"
    )]
    Results { name: String, found: usize },
    /// E0985: a file could not be written.
    #[error("cannot write {file}: {source}")]
    Write {
        file: String,
        source: std::io::Error,
    },
    /// E0987: a file that changed after the model was loaded.
    #[cfg(feature = "onnx")]
    #[error("{file} has changed since the model was loaded; load the model again")]
    Changed { file: String },
    /// E0991: a panic inside Kiln or in a callback, caught at the facade.
    #[error(
        "expected {doing} to complete, found a panic: {message}; this is a defect: report it with the model"
    )]
    Panicked {
        doing: &'static str,
        message: String,
    },
    /// E0990: an option that makes results depend on timing, used with `deterministic`.
    #[cfg(feature = "native")]
    #[error(
        "expected no option that makes results depend on timing with deterministic, found {what}; remove one of them"
    )]
    NotDeterministic { what: &'static str },
    /// E0997: a bundle where a model was expected.
    #[error(
        "expected a model, which is data, found the bundle `{found}`, which is machine code; if you trust it, open it with `Model::open_bundle`, or with its key with `Model::open_sealed_bundle` (on the command line: --trust-bundle, --bundle-key)"
    )]
    BundleIsCode { found: String },
    /// E0988: a bundle made by a different version.
    #[cfg(feature = "native")]
    #[error(
        "expected a bundle of Kiln {expected}, found one of {found}; rebuild it with this version"
    )]
    BundleVersion {
        expected: &'static str,
        found: String,
    },
    /// E0989: a bundle whose code this machine cannot run.
    #[cfg(feature = "native")]
    #[error(
        "expected a bundle for one of this machine's levels ({expected}), found one for {found}; rebuild it with `--target` or `Options::target`"
    )]
    BundleTarget { expected: String, found: String },
    /// E0986: an option that only applies to ONNX models.
    #[error(
        "`{option}` of input `{name}`: expected an ONNX model, found a graph; change the graph instead"
    )]
    NotImported { option: &'static str, name: String },

    /// E01xx, E02xx, E03xx: malformed text of a graph.
    #[error("{rendered}")]
    Text {
        code: &'static str,
        rendered: String,
    },
    /// E02xx: a graph that is not well formed.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// E03xx: types that do not match.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// E03xx: types that do not match, in several places.
    #[error(transparent)]
    InferAll(#[from] InferErrors),
    /// E03xx: sizes that do not match.
    #[error(transparent)]
    Symbol(#[from] DimError),
    /// E03xx: sizes that do not match, at a call.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// E03xx: an error of a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// E088x: a function could not be recorded.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// E0611: gradients of or with respect to something that the model does not have.
    #[error("gradients name {kind} `{name}`, expected one of: {known}")]
    NoGradient {
        kind: &'static str,
        name: String,
        known: String,
    },
    /// E0612: a backward pass with a wrong number of tensors.
    #[error(
        "expected {inputs} inputs and {cotangents} cotangents of a backward pass, found {given_inputs} and {given_cotangents}"
    )]
    Backward {
        inputs: usize,
        cotangents: usize,
        given_inputs: usize,
        given_cotangents: usize,
    },
    /// E06xx: the model cannot be differentiated.
    #[error(transparent)]
    Gradient(#[from] GradientError),
    /// E064x: the precision does not apply to the model.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// E04xx: fusion failed.
    #[error(transparent)]
    Fusion(#[from] FusionError),
    /// E083x: building a program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// E05xx: a kernel could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// E0508 to E0515: a compile worker is unavailable.
    #[cfg(feature = "llvm")]
    #[error(transparent)]
    Worker(#[from] kiln_compile_worker::WorkerError),
    /// E08xx: a call failed.
    #[error(transparent)]
    Run(#[from] InterpretError),
    /// E0730 to E0732: a store that machines share cannot be opened.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] kiln_remote_store::RemoteError),
    /// E07xx: an explicitly named store failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// E08xx: a call of compiled code failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// E09xx: a model could not be loaded.
    #[cfg(feature = "onnx")]
    #[error(transparent)]
    Onnx(#[from] kiln_onnx::Error),
}

impl Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::MissingInput { .. } => "E0871",
            Self::UnknownInput { .. } => "E0872",
            Self::InputType { .. } => "E0873",
            Self::Index { .. } => OpFault::INDEX_OUT_OF_RANGE,
            Self::UnknownOutput { .. } => "E0874",
            Self::State { .. } => "E0875",
            Self::StateLost { .. } => "E0876",
            Self::SessionTensors { .. } => "E0877",
            Self::NotADecoder { .. } => "E0878",
            Self::Capacity { .. } => "E0879",
            Self::UnknownFormat { .. } => "E0971",
            Self::UnknownDim { .. } => "E0972",
            Self::UnknownStage { .. } => "E0973",
            Self::UnknownName { .. } | Self::DeviceKey { .. } => "E0974",
            #[cfg(feature = "native")]
            Self::Device { .. } => "E0998",
            Self::DimText { .. } => "E0975",
            Self::UnknownRank { .. } => "E0976",
            Self::SeveralGraphs => "E0995",
            Self::Questions { .. } => "E0996",
            Self::Read { .. } => "E0977",
            Self::Dim { .. } | Self::Size { .. } => "E0978",
            Self::NotATensor { .. } => "E0979",
            Self::UnknownTarget { .. } => "E0980",
            Self::MemoryBudget { .. } => "E0970",
            #[cfg(feature = "native")]
            Self::Count { .. } => "E0981",
            Self::Panicked { .. } => "E0991",
            #[cfg(feature = "native")]
            Self::NotDeterministic { .. } => "E0990",
            Self::UnknownValue { .. } => "E0982",
            Self::NotCompiled { .. } => "E0983",
            Self::Results { .. } => "E0984",
            Self::Write { .. } => "E0985",
            Self::NotImported { .. } => "E0986",
            Self::NoGradient { .. } => "E0611",
            Self::Backward { .. } => "E0612",
            Self::Gradient(error) => error.code(),
            Self::Precision(error) => error.code(),
            Self::BundleIsCode { .. } => "E0997",
            #[cfg(feature = "native")]
            Self::BundleVersion { .. } => "E0988",
            #[cfg(feature = "native")]
            Self::BundleTarget { .. } => "E0989",
            Self::Cache(error) => error.code(),
            #[cfg(feature = "onnx")]
            Self::Changed { .. } => "E0987",
            Self::Text { code, .. } => code,
            Self::Verify(errors) => errors.code(),
            Self::Infer(error) => error.code(),
            Self::InferAll(errors) => errors.code(),
            Self::Symbol(error) => error.code(),
            Self::Evaluate(error) => error.code(),
            Self::Tensor(error) => error.code(),
            Self::Pass(error) => error.code(),
            Self::Trace(error) => error.code(),
            Self::Fusion(error) => error.code(),
            Self::Program(error) => error.code(),
            Self::Compile(error) => error.code,
            #[cfg(feature = "llvm")]
            Self::Worker(error) => error.code(),
            #[cfg(feature = "remote")]
            Self::Remote(error) => error.code(),
            Self::Run(error) => error.code(),
            Self::Runtime(error) => error.code(),
            #[cfg(feature = "onnx")]
            Self::Onnx(error) => error.code(),
        }
    }
}

impl Failure {
    /// The error that `what` needs compiled code.
    pub(crate) fn not_compiled(what: &'static str) -> Error {
        let next = if cfg!(feature = "llvm") {
            "use `Device::cpu()` (on the command line, --device cpu)"
        } else {
            "build with the feature `llvm`"
        };
        Self::NotCompiled { what, next }.into()
    }

    /// A reader's diagnostics about `text`, with the lines in question.
    pub(crate) fn text(diagnostics: &Diagnostics, text: &str) -> Self {
        let code = diagnostics
            .iter()
            .next()
            .map_or(Diagnostic::UNEXPECTED_TOKEN, |first| first.code);
        let rendered = diagnostics.render(text);
        // The code is printed separately.
        let rendered = match rendered.strip_prefix(&format!("error[{code}]: ")) {
            Some(rest) => rest.to_owned(),
            None => rendered,
        };
        Self::Text { code, rendered }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure))
    }
}

macro_rules! from {
    ($($(#[$attribute:meta])* $source:ty => $variant:ident),* $(,)?) => {$(
        $(#[$attribute])*
        impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Failure::$variant(error).into()
            }
        }
    )*};
}

from! {
    VerifyErrors => Verify,
    InferError => Infer,
    InferErrors => InferAll,
    DimError => Symbol,
    EvaluateError => Evaluate,
    TensorError => Tensor,
    PassError => Pass,
    TraceError => Trace,
    GradientError => Gradient,
    PrecisionError => Precision,
    FusionError => Fusion,
    ProgramError => Program,
    CompileError => Compile,
    #[cfg(feature = "llvm")]
    kiln_compile_worker::WorkerError => Worker,
    #[cfg(feature = "remote")]
    kiln_remote_store::RemoteError => Remote,
    RuntimeError => Runtime,
    CacheError => Cache,
    InterpretError => Run,
    #[cfg(feature = "onnx")]
    kiln_onnx::Error => Onnx,
}
