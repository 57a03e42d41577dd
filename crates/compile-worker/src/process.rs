//! The parent's representation of one worker: a child process, a socket, and its standard error.
//!
//! Dropping it kills the process and waits for it, so that none is left behind; except in a forked child, which is not
//! the worker's parent.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use kiln_backend::{ArtifactParts, CompileObserver};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::error::WorkerError;
use crate::frame::{self, FrameError};
use crate::limits::CompileLimits;
use crate::message::{PROTOCOL, Reply, Request};
use crate::program::WorkerProgram;

/// The interval at which a wait checks the clock and whether the compile is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Characters of standard error shown in an error.
const SHOWN: usize = 300;

/// Bytes of standard error that are read: the capacity of a pipe.
const KEPT: u64 = 64 << 10;

/// The result of a worker.
#[derive(Debug)]
pub(crate) enum Made {
    Artifact(Box<ArtifactParts>),
    Listing(String),
    /// A message beyond the limit: the worker is unharmed.
    TooLong {
        given: usize,
    },
    /// The compiler's own error: the worker is unaffected.
    Failed {
        code: String,
        message: String,
    },
}

/// Why a worker has no result. It is no longer usable.
#[derive(Debug)]
pub(crate) enum Lost {
    /// It was dead before it read the request: another worker may process it.
    BeforeBegin(WorkerError),
    /// The kernel caused it.
    Compiling(WorkerError),
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    socket: UnixStream,
    limits: CompileLimits,
    is_ready: bool,
    /// The number of requests sent to it.
    pub(crate) n_requests: usize,
    started: Instant,
    /// Its parent process.
    process: u32,
}

impl Worker {
    /// Starts a worker. It is ready some time later: see [`ready`](Self::ready).
    pub(crate) fn start(
        program: &WorkerProgram,
        limits: &CompileLimits,
    ) -> Result<Self, WorkerError> {
        let (child, socket) = program.spawn(limits)?;
        let worker = Self {
            child,
            socket,
            limits: *limits,
            is_ready: false,
            n_requests: 0,
            started: Instant::now(),
            process: std::process::id(),
        };
        let prepared = worker.prepare();
        prepared.map_err(|error| WorkerError::Start {
            program: Some(program.path().to_owned()),
            problem: error.to_string(),
        })?;
        Ok(worker)
    }

    fn prepare(&self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(LOOK_EVERY))?;
        let longest = self.limits.wall_clock.max(Duration::from_millis(1));
        self.socket.set_write_timeout(Some(longest))?;
        if let Some(stderr) = &self.child.stderr {
            fcntl_setfl(stderr, fcntl_getfl(stderr)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    /// Waits until it is ready, if that is not known yet. `compiler` is the version that it must have.
    pub(crate) fn ready(
        &mut self,
        compiler: &str,
        program: &WorkerProgram,
    ) -> Result<(), WorkerError> {
        if self.is_ready {
            return Ok(());
        }
        let failed = |problem: String| WorkerError::Start {
            program: Some(program.path().to_owned()),
            problem,
        };
        let until = self.started + self.limits.start;
        let read = self.receive(until, &mut || false);
        match read {
            Ok((
                Reply::Ready {
                    protocol,
                    compiler: found,
                },
                _,
            )) => {
                if protocol != PROTOCOL || found != compiler {
                    return Err(WorkerError::Version {
                        expected: compiler.to_owned(),
                        found: found.escape_debug().to_string(),
                    });
                }
                self.is_ready = true;
                Ok(())
            }
            Ok(_) => Err(failed(
                "its first message is not the expected one".to_owned(),
            )),
            Err(Broken::Time) => Err(failed(format!(
                "it was not ready within {:?}",
                self.limits.start
            ))),
            Err(Broken::Ended) => {
                let (status, said) = self.bury();
                let message = shown(&said);
                Err(failed(format!(
                    "it ended with {}: {message}",
                    describe(status)
                )))
            }
            Err(Broken::Cancelled) => Err(WorkerError::Cancelled),
            Err(Broken::Error(error)) => Err(error),
        }
    }

    /// Processes a request.
    pub(crate) fn run(
        &mut self,
        request: &Request,
        text: &str,
        observer: &mut dyn CompileObserver,
    ) -> Result<Made, Lost> {
        let begin = Instant::now();
        let until = begin + self.limits.wall_clock;
        self.n_requests += 1;
        let limit = self.limits.message;
        if let Err(error) = frame::write(&mut &self.socket, request, text.as_bytes(), limit) {
            return Err(match error {
                FrameError::TooLong { given, limit } => {
                    Lost::Compiling(WorkerError::Message { given, limit })
                }
                FrameError::Damaged(problem) => Lost::Compiling(WorkerError::Protocol { problem }),
                FrameError::Io(_) => Lost::BeforeBegin(self.ended()),
            });
        }
        let mut has_begun = false;
        loop {
            let received = self.receive(until, &mut || observer.is_cancelled());
            let (reply, body) = match received {
                Ok(received) => received,
                Err(Broken::Ended) if !has_begun => return Err(Lost::BeforeBegin(self.ended())),
                Err(Broken::Ended) => return Err(Lost::Compiling(self.ended())),
                Err(Broken::Error(error)) => return Err(Lost::Compiling(error)),
                Err(Broken::Cancelled) => return Err(Lost::Compiling(WorkerError::Cancelled)),
                Err(Broken::Time) => {
                    return Err(Lost::Compiling(WorkerError::Time {
                        given: begin.elapsed(),
                        limit: self.limits.wall_clock,
                    }));
                }
            };
            match reply {
                Reply::Begun => has_begun = true,
                Reply::Begin(phase) => observer.begin(phase.into()),
                Reply::End(phase) => observer.end(phase.into()),
                Reply::Artifact(mut artifact) => {
                    artifact.code = body;
                    return Ok(Made::Artifact(artifact));
                }
                Reply::Listing => {
                    return Ok(Made::Listing(String::from_utf8_lossy(&body).into_owned()));
                }
                Reply::TooLong { given } => return Ok(Made::TooLong { given }),
                Reply::Failed { code, message } => return Ok(Made::Failed { code, message }),
                Reply::Ready { .. } => {
                    let problem = "its first message, a second time".to_owned();
                    return Err(Lost::Compiling(WorkerError::Protocol { problem }));
                }
            }
        }
    }

    /// The next message.
    fn receive(
        &self,
        until: Instant,
        is_cancelled: &mut dyn FnMut() -> bool,
    ) -> Result<(Reply, Vec<u8>), Broken> {
        let mut patient = Patient {
            socket: &self.socket,
            until,
            is_cancelled,
            stopped: None,
        };
        let received = frame::read(&mut patient, self.limits.message);
        let stopped = patient.stopped;
        received.map_err(|error| match (error, stopped) {
            (_, Some(stopped)) => stopped,
            (FrameError::Io(error), None) => {
                tracing::debug!(%error, "a compile worker's stream ended");
                Broken::Ended
            }
            (FrameError::TooLong { given, limit }, None) => {
                Broken::Error(WorkerError::Message { given, limit })
            }
            (FrameError::Damaged(problem), None) => {
                Broken::Error(WorkerError::Protocol { problem })
            }
        })
    }

    /// Why it ended without a request.
    fn ended(&mut self) -> WorkerError {
        let (status, said) = self.bury();
        let message = shown(&said);
        let signal = status.and_then(|status| status.signal());
        if signal == Some(rustix::process::Signal::XCPU.as_raw()) {
            return WorkerError::Time {
                given: self.limits.cpu,
                limit: self.limits.cpu,
            };
        }
        if is_out_of_memory(&said) {
            return WorkerError::Memory {
                limit: self.limits.address_space,
                message,
            };
        }
        WorkerError::Crashed {
            status: describe(status),
            message,
        }
    }

    /// Kills it if it is alive, waits for it, and reads its output.
    fn bury(&mut self) -> (Option<ExitStatus>, Vec<u8>) {
        // One that ended on its own keeps its status.
        let _ = self.child.kill();
        let status = self.child.wait().ok();
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // Everything read before an error counts.
            let _ = stderr.take(KEPT).read_to_end(&mut said);
        }
        (status, said)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Why there is no message.
enum Broken {
    Ended,
    Time,
    Cancelled,
    Error(WorkerError),
}

/// A socket that is read until a time, or until the reader is cancelled.
struct Patient<'a> {
    socket: &'a UnixStream,
    until: Instant,
    is_cancelled: &'a mut dyn FnMut() -> bool,
    stopped: Option<Broken>,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                read => return read,
            }
            self.stopped = if Instant::now() >= self.until {
                Some(Broken::Time)
            } else if (self.is_cancelled)() {
                Some(Broken::Cancelled)
            } else {
                continue;
            };
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

fn describe(status: Option<ExitStatus>) -> String {
    status.map_or_else(
        || "an unknown status".to_owned(),
        |status| status.to_string(),
    )
}

/// The beginning of the output, on one line, escaped: the error comes before any trace.
fn shown(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let words: Vec<&str> = said.split_whitespace().collect();
    let begin: String = words.join(" ").chars().take(SHOWN).collect();
    begin.escape_debug().to_string()
}

/// Whether a runtime library reported a failed allocation: the messages of Rust, LLVM and C++.
fn is_out_of_memory(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    [
        "memory allocation of",
        "out of memory",
        "bad_alloc",
        // The only exceptions of LLVM's libraries are out-of-memory exceptions.
        "foreign exceptions",
        "Cannot allocate memory",
    ]
    .iter()
    .any(|words| said.contains(words))
}
