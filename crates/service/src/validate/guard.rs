//! The program that runs memory checks: a separate process, whose buffers are next to guard pages.
//!
//! Compiled code that reads or writes out of bounds ends that process at the faulting instruction, whose location is
//! reported to the parent. A program that starts validators with [`GuardProgram::current`] must begin with
//! [`main_if_guard`].
//!
//! *Invariant:* the runner opens a bundle that its parent sealed with a key made for that one check.

use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::diagnose::{self, Stage};
use kiln::internals::ir::Graph;
use kiln::{Cache, Compiling, Model, Options, SealKey, Tensor};
use kiln_native::guard::{Side, guarded_tensor, live, with_guard_pages};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes a program a runner.
const ARGUMENT: &str = "--kiln-guard-runner";
/// The number of calls of each case, so that a leak per call can be distinguished from memory that is kept.
const CALLS: usize = 3;

/// A program that begins with [`main_if_guard`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardProgram {
    path: PathBuf,
    time_limit: Duration,
}

/// Code that takes longer is considered to hang.
const TIME_LIMIT: Duration = Duration::from_secs(120);

impl GuardProgram {
    /// This program.
    ///
    /// # Errors
    /// E1424 if the system does not report its path.
    pub fn current() -> Result<Self, ServiceError> {
        let path = std::env::current_exe();
        let path = path.map_err(|error| ServiceError::GuardProgram {
            problem: error.to_string(),
        })?;
        Ok(Self::at(path))
    }

    /// Another program.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            time_limit: TIME_LIMIT,
        }
    }

    /// Sets the time limit for all cases of a kernel; 120 s by default.
    #[must_use]
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Runs the cases of a request.
    pub(super) fn run(&self, request: &Request) -> Result<Ended, ServiceError> {
        let problem = |problem: String| ServiceError::GuardProgram { problem };
        let system = |error: std::io::Error| problem(error.to_string());
        let mut child = Command::new(&self.path)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system)?;
        let text = serde_json::to_vec(request).map_err(|error| problem(error.to_string()))?;
        if let Some(mut input) = child.stdin.take() {
            // A runner that ended before it read its input is reported by its status.
            let _ = input.write_all(&text);
        }
        // The output is read during the wait, so that a full pipe blocks neither process.
        let out = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut lines = Vec::new();
            let read = out.map(|mut out| out.read_to_end(&mut lines));
            read.transpose().map(|_| lines)
        });
        let status = self.wait(&mut child)?;
        let lines = match reader.join() {
            Ok(lines) => lines.map_err(system)?,
            Err(panic) => return Err(problem(crate::service::message_of(&*panic))),
        };
        let lines = String::from_utf8_lossy(&lines);
        let mut last = None;
        for line in lines.lines() {
            match serde_json::from_str::<Line>(line) {
                Ok(line) => last = Some(line),
                Err(_) => return Err(problem(
                    "it is no guard program: `main_if_guard` is not the first thing in its `main`"
                        .to_owned(),
                )),
            }
        }
        match (last, signal_of(status)) {
            (Some(Line::Done { leaked, grown }), None) => Ok(Ended::Done { leaked, grown }),
            (Some(Line::Failed { problem: said }), _) => Err(problem(said)),
            (Some(Line::Case { shapes, side }), Some(signal)) => Ok(Ended::Killed {
                shapes,
                side,
                signal,
            }),
            (_, signal) => Err(problem(format!(
                "it ended without an answer ({status}, signal {signal:?})"
            ))),
        }
    }

    /// Waits for a runner; kills one that exceeds the limit.
    fn wait(&self, child: &mut Child) -> Result<ExitStatus, ServiceError> {
        let problem = |problem: String| ServiceError::GuardProgram { problem };
        let begin = Instant::now();
        loop {
            let ended = child.try_wait();
            if let Some(status) = ended.map_err(|error| problem(error.to_string()))? {
                return Ok(status);
            }
            if begin.elapsed() > self.time_limit {
                // The process may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                let limit = self.time_limit;
                return Err(problem(format!(
                    "expected all cases to end within {limit:?}, found one that did not"
                )));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(unix)]
fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: std::process::ExitStatus) -> Option<i32> {
    None
}

/// The task of a runner.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) bundle: PathBuf,
    pub(super) secret: Vec<u8>,
    /// The shapes of the inputs, per case.
    pub(super) cases: Vec<Vec<Vec<usize>>>,
    pub(super) seed: u64,
}

/// How a runner ended.
pub(super) enum Ended {
    /// It ran every case.
    Done { leaked: usize, grown: usize },
    /// The system ended it while it ran this case.
    Killed {
        shapes: Vec<Vec<usize>>,
        side: String,
        signal: i32,
    },
}

/// A line that a runner writes.
#[derive(Serialize, Deserialize)]
enum Line {
    /// This case is about to run.
    Case {
        shapes: Vec<Vec<usize>>,
        side: String,
    },
    /// All cases ran: the number of allocations that were not freed, and of bytes by which memory grew over repeated
    /// calls.
    Done { leaked: usize, grown: usize },
    /// The cases could not run.
    Failed { problem: String },
}

/// Serves as a guard program and does not return if this process was started as one; returns at once otherwise.
///
/// Call it first in `main`, before threads are started.
pub fn main_if_guard() {
    if std::env::args_os()
        .nth(1)
        .is_none_or(|argument| argument != ARGUMENT)
    {
        return;
    }
    let line = match serve() {
        Ok((leaked, grown)) => Line::Done { leaked, grown },
        Err(problem) => Line::Failed { problem },
    };
    write(&line);
    std::process::exit(0);
}

fn write(line: &Line) {
    let mut out = std::io::stdout().lock();
    let text = serde_json::to_string(line).unwrap_or_default();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

fn serve() -> Result<(usize, usize), String> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    let request: Request = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let mut grown = 0;
    for side in [Side::Before, Side::After] {
        grown += with_guard_pages(side, || run_cases(&request, side))?;
    }
    Ok((live(), grown))
}

/// Runs every case on a separate model; returns the number of bytes by which memory grew over repeated calls.
fn run_cases(request: &Request, side: Side) -> Result<usize, String> {
    let model = open(&request.bundle, &request.secret)?;
    let graph = diagnose::graph(&model, Stage::Import).map_err(|error| error.to_string())?;
    let mut grown = 0;
    for shapes in &request.cases {
        write(&Line::Case {
            shapes: shapes.clone(),
            side: format!("{side:?}"),
        });
        grown += run_case(&model, &graph, shapes, side, request.seed)?;
    }
    Ok(grown)
}

fn open(bundle: &Path, secret: &[u8]) -> Result<Model, String> {
    let compiling = Compiling {
        variants: None,
        threads: Some(1),
        ..Compiling::default()
    };
    // One thread, which is this one: the scratch memory of other threads would not be guarded.
    let options = Options::new().threads(1).shared_kernels(false);
    let options = options.cache(Cache::off()).compiling(compiling);
    let opened = Model::open_sealed_bundle(bundle, &SealKey::of_secret(secret), options);
    opened.map_err(|error| error.to_string())
}

fn run_case(
    model: &Model,
    graph: &Graph,
    shapes: &[Vec<usize>],
    side: Side,
    seed: u64,
) -> Result<usize, String> {
    let inputs = draw::drawn_inputs(graph, shapes, &mut Random::new(seed));
    let inputs = inputs.map_err(|error| error.to_string())?;
    let guarded: Result<Vec<Tensor>, _> = inputs
        .iter()
        .map(|tensor| guarded_tensor(tensor, side))
        .collect();
    let guarded = guarded.map_err(|error| error.to_string())?;
    let rented = || model.memory_stats().map_or(0, |stats| stats.rented_bytes);
    // A fault of the graph, such as an index out of range, is a result too.
    drop(model.run(&guarded));
    model.trim_memory(0);
    let before = (live(), rented());
    for _ in 0..CALLS {
        drop(model.run(&guarded));
        model.trim_memory(0);
    }
    let after = (live(), rented());
    Ok(after
        .1
        .saturating_sub(before.1)
        .max(after.0.saturating_sub(before.0)))
}
