//! Errors of loading and running object code.

use kiln_backend::{ExecuteError, PackError};
use kiln_tensor::TensorError;
use std::fmt;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// E0850: bytes that are not a complete relocatable ELF object.
    #[error("expected a relocatable 64-bit ELF object, found {found}; compile the kernel again")]
    Damaged {
        /// What is wrong with the bytes.
        found: String,
    },

    /// E0851: an object for a machine other than the one on which it is loaded.
    #[error("expected an object for {expected}, found ELF machine {found}")]
    Machine {
        /// This machine.
        expected: &'static str,
        /// The machine number in the object's header.
        found: u16,
    },

    /// E0852: a section that kernels do not have.
    #[error("section {} {why}; kernels contain only code and constants", Quoted(.section))]
    Section {
        /// The section's name.
        section: String,
        /// The kind of section.
        why: &'static str,
    },

    /// E0853: an undefined symbol that is not one of the functions that a kernel may call.
    #[error("undefined symbol {}; a kernel may only call {}", Quoted(.symbol), crate::host_functions::NAMES.join(", "))]
    UndefinedSymbol {
        /// The symbol's name.
        symbol: String,
    },

    /// E0854: a symbol of a kind that kernels do not have.
    #[error("symbol {} {why}; expected code or constants", Quoted(.symbol))]
    Symbol {
        /// The symbol's name.
        symbol: String,
        /// The kind of symbol.
        why: &'static str,
    },

    /// E0855: a relocation of a kind that is not supported.
    #[error("relocation kind {kind} in section {} is not supported", Quoted(.section))]
    RelocationKind {
        /// The number of the kind.
        kind: u32,
        /// The section that is relocated.
        section: String,
    },

    /// E0856: a relocation whose value does not fit, or whose place is invalid.
    #[error("relocation kind {kind} at {offset:#x} of section {}: {why}", Quoted(.section))]
    Relocation {
        /// The number of the kind.
        kind: u32,
        /// The offset in the section.
        offset: u64,
        /// The section that is relocated.
        section: String,
        /// What is wrong.
        why: String,
    },

    /// E0857: an entry that the object does not export as a function.
    #[error("expected the object to export the function {}, found none", Quoted(.entry))]
    Entry {
        /// The entry's name.
        entry: String,
    },

    /// E0858: the system does not provide memory for code, or does not allow making it executable.
    #[error("cannot allocate {bytes} bytes of executable memory: {cause}")]
    CodeMemory {
        /// The requested size.
        bytes: usize,
        /// The system's error.
        cause: std::io::Error,
    },

    /// E0859: an object that is larger than any kernel's.
    #[error("{what} of an object: given {given}, limit {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The actual number.
        given: u64,
        /// The limit.
        limit: u64,
    },

    /// E0860: code for instructions that this machine does not have.
    #[error("code for level {} cannot run on this machine; compile for a level that it supports", Quoted(.level))]
    Level {
        /// The instruction-set level.
        level: String,
    },

    /// E0861: an argument that does not fit the kernel, the builtin or the memory.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What does not fit.
        what: String,
        /// The expected value.
        expected: String,
        /// The given value.
        found: String,
    },

    /// E0895: more memory than the executor may use at one time.
    #[error(
        "expected at most {limit} bytes of memory at one time, found {given}; raise the limit, or run fewer or smaller \
         calls at a time"
    )]
    MemoryLimit {
        /// The memory that would be used.
        given: usize,
        /// The limit.
        limit: usize,
    },

    /// E0862: memory to be written that is shared with a tensor.
    #[error("{what}: expected writable memory, found memory shared with a tensor")]
    ReadOnly {
        /// The memory that would be written.
        what: String,
    },

    /// Memory that could not be allocated, or a tensor that cannot be made from it: the code is the cause's.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    /// A constant that cannot be packed: the code is the cause's.
    #[error(transparent)]
    Pack(#[from] PackError),
}

impl NativeError {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "E0850",
            Self::Machine { .. } => "E0851",
            Self::Section { .. } => "E0852",
            Self::UndefinedSymbol { .. } => "E0853",
            Self::Symbol { .. } => "E0854",
            Self::RelocationKind { .. } => "E0855",
            Self::Relocation { .. } => "E0856",
            Self::Entry { .. } => "E0857",
            Self::CodeMemory { .. } => "E0858",
            Self::Limit { .. } => "E0859",
            Self::Level { .. } => "E0860",
            Self::Mismatch { .. } => "E0861",
            Self::ReadOnly { .. } => "E0862",
            Self::MemoryLimit { .. } => "E0895",
            Self::Tensor(cause) => cause.code(),
            Self::Pack(cause) => cause.code(),
        }
    }

    /// A mismatch of a given and an expected value.
    pub(crate) fn mismatch(
        what: impl Into<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::Mismatch {
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// A damaged object.
    pub(crate) fn damaged(found: impl fmt::Display) -> Self {
        Self::Damaged {
            found: found.to_string(),
        }
    }
}

impl From<NativeError> for ExecuteError {
    fn from(error: NativeError) -> Self {
        Self {
            code: error.code(),
            out_of_memory: matches!(
                error,
                NativeError::MemoryLimit { .. }
                    | NativeError::Tensor(TensorError::Allocation { .. })
                    | NativeError::Pack(PackError::Tensor(TensorError::Allocation { .. }))
            ),
            source: Box::new(error),
        }
    }
}

/// A name from an object, with control characters escaped and truncated.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 80;
        let shown: String = self.0.chars().take(LONGEST).collect();
        let rest = if shown.len() < self.0.len() {
            "…"
        } else {
            ""
        };
        write!(f, "`{}{rest}`", shown.escape_debug())
    }
}
