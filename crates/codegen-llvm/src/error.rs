//! Errors of compiling a kernel to object code.

use kiln_backend::IsaLevel;
use kiln_schedule_cpu::ScheduleError;

/// An error of this crate. Each variant names its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlvmError {
    /// E0501: the linked LLVM cannot generate code for a level.
    #[error("the linked LLVM has no code generator for `{level}`: {message}")]
    Target {
        /// The requested level.
        level: IsaLevel,
        /// LLVM's message.
        message: String,
    },

    /// E0502: the module generated from a kernel is invalid; a defect of Kiln's.
    #[error("kernel `{kernel}`: LLVM's verifier rejects the generated module: {message}")]
    InvalidModule {
        /// The kernel's name.
        kernel: String,
        /// What the verifier found.
        message: String,
    },

    /// E0503: LLVM reported an error while optimising or emitting.
    #[error("kernel `{kernel}`: LLVM reports: {}", .diagnostics.join("; "))]
    Diagnostics {
        /// The kernel's name.
        kernel: String,
        /// Each error reported, in order.
        diagnostics: Vec<String>,
    },

    /// E0504: an object that needs a symbol that the loader does not provide; a defect of Kiln's.
    #[error("kernel `{kernel}`: the object code needs `{symbol}`, which no loader provides")]
    UndefinedSymbol {
        /// The kernel's name.
        kernel: String,
        /// The symbol.
        symbol: String,
    },

    /// E0505: an operation that code generation does not support for these operands.
    #[error("expected an operation on elements that code is generated for, found {what}")]
    Unsupported {
        /// The operation and its operands.
        what: String,
    },

    /// E0506, E0507: a schedule that is not valid for the kernel, or a target of another backend.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),

    /// E0516: the process was forked while its parent initialised LLVM, which cannot be completed in the child.
    #[error(
        "process {parent} was forked while it set LLVM up, so this child cannot use LLVM; compile in workers, or fork before the first compile or after it"
    )]
    ForkedInSetup {
        /// The parent process.
        parent: u32,
    },
}

impl LlvmError {
    /// All error codes, those of schedules included.
    pub const CODES: &[&str] = &[
        "E0501",
        "E0502",
        "E0503",
        "E0504",
        "E0505",
        ScheduleError::CODES[0],
        ScheduleError::CODES[1],
        "E0516",
    ];

    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            LlvmError::Target { .. } => "E0501",
            LlvmError::InvalidModule { .. } => "E0502",
            LlvmError::Diagnostics { .. } => "E0503",
            LlvmError::UndefinedSymbol { .. } => "E0504",
            LlvmError::Unsupported { .. } => "E0505",
            LlvmError::Schedule(error) => error.code(),
            LlvmError::ForkedInSetup { .. } => "E0516",
        }
    }
}
