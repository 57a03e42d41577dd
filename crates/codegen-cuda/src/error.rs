//! Errors of compiling a kernel to a cubin.

use kiln_kernel::VerifiedKernel;

/// An error of the compiler for GPUs. Each variant names its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// E0551: a library that is not on this machine, or cannot be used.
    #[error("expected {what}, found none that can be used: {}; {next}", .looked.join("; "))]
    Environment {
        /// The library.
        what: &'static str,
        /// Each place that was searched, with what was found there.
        looked: Vec<String>,
        /// What to do.
        next: String,
    },

    /// E0552: a schedule that is not one of this compiler, or does not apply to the kernel.
    #[error("expected a schedule of this compiler for the kernel, found {text}")]
    Schedule {
        /// The schedule.
        text: String,
    },

    /// E0553: a kernel with more buffers and sizes than a launch can pass.
    #[error(
        "expected at most {limit} buffers and sizes in a kernel for a GPU, found {given}; fuse less"
    )]
    TooManyWords {
        /// The number of words.
        given: usize,
        /// The maximum.
        limit: usize,
    },

    /// E0554: NVRTC rejects the generated source; a defect of Kiln's.
    #[error("NVRTC rejects the code of kernel `{kernel}` for {arch}: {log}")]
    Rejected {
        /// The kernel's name.
        kernel: String,
        /// The architecture.
        arch: String,
        /// The start of NVRTC's log.
        log: String,
    },

    /// E0555: an architecture for which this compiler does not generate code.
    #[error("expected a GPU architecture among {known}, found `{found}`")]
    Arch {
        /// The name.
        found: String,
        /// The known ones.
        known: String,
    },

    /// E0556: NVRTC failed without compiling.
    #[error("NVRTC failed: {0}")]
    Nvrtc(String),

    /// The compile was cancelled: `CompileError::CANCELLED`.
    #[error("the compile was cancelled")]
    Cancelled,

    /// E0550: a container that cannot be written.
    #[error(transparent)]
    Container(#[from] crate::container::ContainerError),
}

impl CudaError {
    /// All error codes except that of cancellation.
    pub const CODES: &[&str] = &[
        "E0550", "E0551", "E0552", "E0553", "E0554", "E0555", "E0556",
    ];

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Environment { .. } => "E0551",
            Self::Schedule { .. } => "E0552",
            Self::TooManyWords { .. } => "E0553",
            Self::Rejected { .. } => "E0554",
            Self::Arch { .. } => "E0555",
            Self::Nvrtc(_) => "E0556",
            Self::Cancelled => kiln_backend::CompileError::CANCELLED,
            Self::Container(error) => error.code(),
        }
    }

    /// The error that a strategy does not apply to a kernel.
    pub(crate) fn not_for(kernel: &VerifiedKernel, strategy: &str) -> Self {
        Self::Schedule {
            text: format!("{strategy} for @{}", kernel.name()),
        }
    }
}
