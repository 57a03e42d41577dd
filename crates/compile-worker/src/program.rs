//! The program that is run as a worker, and how it is run.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::WorkerError;
use crate::limits::CompileLimits;
use crate::message::{PROTOCOL, Start};
use crate::serve::is_worker_program;

/// The first argument of a program that is run as a worker.
pub(crate) const MARKER: &str = "serve-as-compile-worker";

/// A program that serves as a worker: one whose `main` begins with [`main_if_worker`](crate::main_if_worker).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerProgram {
    path: PathBuf,
    arguments: Vec<OsString>,
}

/// The identity of a program's file: a reinstalled one differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
}

impl WorkerProgram {
    /// The program of this process.
    ///
    /// # Errors
    /// E0508 when it has not called [`main_if_worker`](crate::main_if_worker), or cannot be named.
    pub fn current() -> Result<Self, WorkerError> {
        let failed = |problem: String| WorkerError::Start {
            program: None,
            problem,
        };
        if !is_worker_program() {
            return Err(failed(
                "this program cannot serve as one, and no other is configured".to_owned(),
            ));
        }
        let path = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        Self::named(&path)
    }

    /// The program at a path, such as the `kiln` command.
    ///
    /// ```compile_fail,E0133
    /// let program = kiln_compile_worker::WorkerProgram::at("/usr/bin/kiln");
    /// ```
    ///
    /// # Safety
    /// The program is one of Kiln's, or calls [`serve`](crate::serve) with a compiler of Kiln's, and only users who may run
    /// code in this process can change its file: the compiled code that it sends is run.
    ///
    /// # Errors
    /// E0508 when there is no file.
    pub unsafe fn at(path: impl AsRef<Path>) -> Result<Self, WorkerError> {
        Self::named(path.as_ref())
    }

    fn named(path: &Path) -> Result<Self, WorkerError> {
        let failed = |problem: String| WorkerError::Start {
            program: Some(path.to_owned()),
            problem,
        };
        // Workers run in the root folder, so the path must not depend on the current one.
        let whole = path
            .canonicalize()
            .map_err(|error| failed(error.to_string()))?;
        if !whole.is_file() {
            return Err(failed("expected an executable file".to_owned()));
        }
        Ok(Self {
            path: whole,
            arguments: vec![OsString::from(MARKER)],
        })
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's current identity; `None` if it does not exist.
    pub(crate) fn file(&self) -> Option<ProgramFile> {
        let data = self.path.metadata().ok()?;
        Some(ProgramFile {
            inode: (data.dev(), data.ino()),
            bytes: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
        })
    }

    /// The same, run with these arguments instead of the marker: for programs that call [`serve`](crate::serve)
    /// themselves with their last argument.
    #[must_use]
    pub fn with_arguments<A: Into<OsString>>(
        mut self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Starts it in a separate process group, so that Ctrl-C in a terminal is left to the parent.
    pub(crate) fn spawn(&self, limits: &CompileLimits) -> Result<(Child, UnixStream), WorkerError> {
        let failed = |problem: String| WorkerError::Start {
            program: Some(self.path.clone()),
            problem,
        };
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(error.to_string()))?;
        let start = Start {
            protocol: PROTOCOL,
            parent: rustix::process::getpid().as_raw_pid(),
            limits: *limits,
        };
        let start = serde_json::to_string(&start).map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .arg(start)
            .current_dir("/")
            // A crash message is shown in an error, without a backtrace, which takes a second to produce.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        Ok((child, ours))
    }
}
