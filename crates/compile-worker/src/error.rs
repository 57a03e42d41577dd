//! Errors in communicating with a worker.

use std::path::PathBuf;
use std::time::Duration;

use kiln_backend::CompileError;

/// Why a worker returned no artifact. Each variant names its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// E0508: there is no program to run as a worker, or it does not start.
    #[error(
        "cannot start a compile worker{}: {problem}; call `kiln::compile_worker::main_if_worker` at the start of `main`, \
         name the `kiln` command as the worker's program, or compile in process",
        .program.as_ref().map_or_else(String::new, |path| format!(" from {}", path.display()))
    )]
    Start {
        /// The program, if one was found.
        program: Option<PathBuf>,
        /// What happened.
        problem: String,
    },

    /// E0509: the compiler crashed: the worker aborted, was killed or exited.
    #[error("the compiler crashed: the worker ended with {status}{}", said(.message))]
    Crashed {
        /// How it ended.
        status: String,
        /// The beginning of its standard error.
        message: String,
    },

    /// E0510: a compile exceeded its time limit.
    #[error(
        "the compile took {given:?}, more than the limit of {limit:?}; raise `limits.compile` if it is trusted"
    )]
    Time {
        /// The time until it was ended.
        given: Duration,
        /// The limit.
        limit: Duration,
    },

    /// E0511: a compile needed more memory than its worker's limit.
    #[error(
        "the compile needs more address space than the limit of {limit} bytes{}; raise `limits.compile` if it is trusted",
        said(.message)
    )]
    Memory {
        /// The limit on a worker's address space in bytes.
        limit: u64,
        /// The beginning of its standard error.
        message: String,
    },

    /// E0512: a message between the processes exceeds its limit.
    #[error(
        "a message of {given} bytes between this process and its compile worker, more than the limit of {limit}"
    )]
    Message {
        /// The bytes of the message.
        given: usize,
        /// The limit in bytes.
        limit: usize,
    },

    /// E0513: the worker's program is of a different version.
    #[error(
        "expected a compile worker of `{expected}`, found one of `{found}`; install the worker of this version"
    )]
    Version {
        /// The compiler of this process.
        expected: String,
        /// The worker's.
        found: String,
    },

    /// E0514: an invalid message from the worker.
    #[error("the compile worker sent a malformed message: {problem}")]
    Protocol {
        /// What is wrong with it.
        problem: String,
    },

    /// E0515: every caller that waited for the compile was cancelled.
    #[error("the compile was cancelled: no call is waiting for it")]
    Cancelled,

    /// An error of the compiler itself, under its own code.
    #[error("{message}")]
    Compiler {
        /// The compiler's code.
        code: &'static str,
        /// The compiler's message.
        message: String,
    },
}

impl WorkerError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "E0508",
            Self::Crashed { .. } => "E0509",
            Self::Time { .. } => "E0510",
            Self::Memory { .. } => "E0511",
            Self::Message { .. } => "E0512",
            Self::Version { .. } => "E0513",
            Self::Protocol { .. } => "E0514",
            Self::Cancelled => CompileError::CANCELLED,
            Self::Compiler { code, .. } => code,
        }
    }
}

/// The worker's standard error, as the end of a message.
fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(" ({message})"),
    }
}
