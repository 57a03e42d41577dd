//! The worker's side: reads requests, compiles, replies, until its parent exits.

use std::ffi::OsString;
use std::io::BufReader;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_backend::{CompileError, CompileObserver, CompilePhase, KernelCompiler, Listing};
use kiln_kernel::{VerifiedKernel, text, verify};
use kiln_symbolic_shape::DimLimits;

use crate::confine::{confine, limit_cpu};
use crate::frame::{self, FrameError};
use crate::message::{PROTOCOL, Phase, Reply, Request, Start, Want};
use crate::program::MARKER;

/// Whether this program begins with [`main_if_worker`], so that it can be its own worker.
static IS_WORKER_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Serves as a compile worker and does not return, if this process was started as one; otherwise returns at once.
///
/// To be called first in `main`, before the program opens files or starts threads. `compiler` makes the compiler, and
/// prepares whatever the first compile should not wait for.
pub fn main_if_worker<C: KernelCompiler>(compiler: impl FnOnce() -> C + Send) {
    IS_WORKER_PROGRAM.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != MARKER) {
        return;
    }
    let code = match arguments.next() {
        Some(start) => serve(&start, compiler),
        None => ExitCode::from(2),
    };
    // It exits directly, because no code may run after a worker has ended.
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}

/// Whether [`main_if_worker`] was called in this process.
pub fn is_worker_program() -> bool {
    IS_WORKER_PROGRAM.load(Ordering::Relaxed)
}

/// Serves on standard input, which is a socket, until the parent exits. `start` is the argument from the parent.
pub fn serve<C: KernelCompiler>(start: &OsString, compiler: impl FnOnce() -> C + Send) -> ExitCode {
    let start: Option<Start> = start
        .to_str()
        .and_then(|start| serde_json::from_str(start).ok());
    let Some(start) = start else {
        return ExitCode::from(2);
    };
    if confine(start.parent, &start.limits).is_err() {
        return ExitCode::FAILURE;
    }
    let builder = std::thread::Builder::new()
        .name("compile".to_owned())
        .stack_size(start.limits.stack);
    let served = std::thread::scope(|scope| {
        let thread = builder.spawn_scoped(scope, || requests(&start, compiler()));
        thread.map(|thread| thread.join().is_ok()).unwrap_or(false)
    });
    match served {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Replies to requests until there are no more.
fn requests(start: &Start, compiler: impl KernelCompiler) {
    let limit = start.limits.message;
    let Ok(socket) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let socket = UnixStream::from(socket);
    let mut input = BufReader::new(&socket);
    let ready = Reply::Ready {
        protocol: PROTOCOL,
        compiler: compiler.version(),
    };
    let mut sent = frame::write(&mut &socket, &ready, &[], limit);
    while sent.is_ok()
        && let Ok((request, text)) = frame::read::<Request>(&mut input, limit)
    {
        if limit_cpu(&start.limits).is_err() {
            return;
        }
        sent = frame::write(&mut &socket, &Reply::Begun, &[], limit);
        let (reply, body) = reply_to(&request, &text, &compiler, &socket, limit);
        sent = sent.and_then(
            |()| match frame::write(&mut &socket, &reply, &body, limit) {
                Err(FrameError::TooLong { given, .. }) => {
                    frame::write(&mut &socket, &Reply::TooLong { given }, &[], limit)
                }
                sent => sent,
            },
        );
    }
}

/// Processes a request.
fn reply_to(
    request: &Request,
    text: &[u8],
    compiler: &impl KernelCompiler,
    socket: &UnixStream,
    limit: usize,
) -> (Reply, Vec<u8>) {
    let kernel = match kernel_of(text, &request.dims) {
        Ok(kernel) => kernel,
        Err(message) => {
            let code = "E0514".to_owned();
            return (Reply::Failed { code, message }, Vec::new());
        }
    };
    let Request {
        target,
        schedule,
        want,
        dims: _,
    } = request;
    let listing = |listing| {
        let text = compiler.listing(&kernel, target, schedule, listing)?;
        Ok((Reply::Listing, text.into_bytes()))
    };
    let done = match want {
        Want::Source => listing(Listing::Source),
        Want::Assembly => listing(Listing::Assembly),
        Want::Artifact => compiler
            .compile(&kernel, target, schedule, &mut Telling { socket, limit })
            .map(|artifact| {
                let mut parts = artifact.to_parts();
                let code = std::mem::take(&mut parts.code);
                (Reply::Artifact(Box::new(parts)), code)
            }),
    };
    done.unwrap_or_else(|error| (failed(&error), Vec::new()))
}

fn failed(error: &CompileError) -> Reply {
    Reply::Failed {
        code: error.code.to_owned(),
        message: error.source.to_string(),
    }
}

fn kernel_of(text: &[u8], limits: &DimLimits) -> Result<VerifiedKernel, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let kernel = text::read_within(text, limits.clone()).map_err(|errors| errors.render(text))?;
    verify(kernel).map_err(|errors| errors.to_string())
}

/// Notifies the parent of the beginning and end of each part of a compile.
struct Telling<'a> {
    socket: &'a UnixStream,
    limit: usize,
}

impl Telling<'_> {
    fn tell(&mut self, phase: CompilePhase, reply: fn(Phase) -> Reply) {
        if let Some(phase) = Phase::of(phase) {
            // A parent that exited is noticed at the reply.
            let _ = frame::write(&mut self.socket, &reply(phase), &[], self.limit);
        }
    }
}

impl CompileObserver for Telling<'_> {
    fn begin(&mut self, phase: CompilePhase) {
        self.tell(phase, Reply::Begin);
    }

    fn end(&mut self, phase: CompilePhase) {
        self.tell(phase, Reply::End);
    }
}
