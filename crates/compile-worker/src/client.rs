//! [`WorkerCompiler`]: a compiler, as the runtime sees it, that delegates risky work to workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_backend::{
    Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Listing, Schedule,
    Target, Unobserved,
};
use kiln_fork_lock::ForkLock;
use kiln_kernel::{VerifiedKernel, text};

use crate::error::WorkerError;
use crate::limits::CompileLimits;
use crate::message::{Request, Want};
use crate::pool::Pool;
use crate::process::{Lost, Made};
use crate::program::WorkerProgram;
use crate::remembered::Remembered;

/// The maximum number of workers that may turn out to be dead before one reads a request.
const TRIES: usize = 3;

/// A compiler whose work is done in worker processes.
///
/// The inner compiler in this process handles all queries (versions, targets, schedules); `compile` and `listing` are
/// sent to a worker whose compiler has the same version. A kernel that crashed its worker, or exceeded a limit, is
/// remembered: it fails immediately, with the same error and without using a worker, until the worker's program
/// changes, [`forget_failures`](kiln_backend::KernelCompiler::forget_failures) is called, or it is due for a retry.
pub struct WorkerCompiler {
    inner: Box<dyn KernelCompiler>,
    codes: &'static [&'static str],
    program: WorkerProgram,
    limits: CompileLimits,
    most: usize,
    pool: ForkLock<Option<(u32, Arc<Pool>)>>,
    remembered: Remembered,
    lost: AtomicU64,
}

impl std::fmt::Debug for WorkerCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerCompiler")
            .field("program", &self.program)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl WorkerCompiler {
    /// Compiles as `inner` does, with at most `most` workers at a time. `codes` are the codes of the inner compiler's
    /// errors. The first worker is started now.
    ///
    /// # Errors
    /// E0508 when the thread that starts workers cannot be created.
    pub fn new(
        inner: impl KernelCompiler + 'static,
        codes: &'static [&'static str],
        program: WorkerProgram,
        limits: CompileLimits,
        most: usize,
    ) -> Result<Self, WorkerError> {
        let compiler = Self {
            inner: Box::new(inner),
            codes,
            program,
            limits,
            most,
            pool: ForkLock::default(),
            remembered: Remembered::default(),
            lost: AtomicU64::new(0),
        };
        compiler.pool()?;
        Ok(compiler)
    }

    /// With this time after which a kernel that ended its worker is retried; 10 minutes by default.
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        self.remembered = Remembered::for_time(time);
        self
    }

    /// The number of workers lost to kernels: crashed, or ended by a limit or a cancellation.
    pub fn n_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The workers of this process. A forked child starts its own, and does not touch those of its parent.
    fn pool(&self) -> Result<Arc<Pool>, WorkerError> {
        let mut pool = self.pool.lock();
        let here = std::process::id();
        if let Some((process, pool)) = &*pool
            && *process == here
        {
            return Ok(Arc::clone(pool));
        }
        let own = Arc::new(Pool::new(&self.program, &self.limits, self.most)?);
        let before = pool.replace((here, Arc::clone(&own)));
        // The pool is the parent's: its locks may be held by threads that do not exist here.
        std::mem::forget(before);
        Ok(own)
    }

    fn run(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        want: Want,
        observer: &mut dyn CompileObserver,
    ) -> Result<Made, WorkerError> {
        let text = text::print(kernel);
        let request = Request {
            target: target.clone(),
            schedule: schedule.clone(),
            want,
            dims: kernel.dims().limits().clone(),
        };
        let key = key_of(&request, &text);
        if let Some(error) = self.remembered.error_of(&key, &self.program) {
            return Err(error);
        }
        let made = match self.try_workers(&request, &text, observer) {
            Ok(Made::TooLong { given }) => Err(WorkerError::Message {
                given,
                limit: self.limits.message,
            }),
            made => made,
        };
        if let Err(error) = &made
            && error.is_of_the_kernel()
        {
            self.remembered.note(key, error, &self.program);
        }
        made
    }

    fn try_workers(
        &self,
        request: &Request,
        text: &str,
        observer: &mut dyn CompileObserver,
    ) -> Result<Made, WorkerError> {
        let pool = self.pool()?;
        let compiler = KernelCompiler::version(&*self.inner);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut worker = pool.take(&compiler, &mut || observer.is_cancelled())?;
            let is_fresh = worker.n_requests == 0;
            let lost = match worker.run(request, text, observer) {
                Ok(made) => {
                    pool.give_back(worker);
                    return Ok(made);
                }
                Err(lost) => lost,
            };
            pool.bury(worker);
            match lost {
                Lost::BeforeBegin(error) if tries < TRIES => {
                    tracing::debug!(%error, "a compile worker had died before it was used");
                }
                // Leftovers of earlier compiles are not this kernel's fault.
                Lost::Compiling(error @ WorkerError::Memory { .. })
                    if !is_fresh && tries < TRIES =>
                {
                    tracing::debug!(%error, "trying in a fresh compile worker");
                }
                Lost::BeforeBegin(error) => return Err(error),
                Lost::Compiling(error) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "a compile worker was lost");
                    return Err(error);
                }
            }
        }
    }

    /// A compiler's own error, under a known code.
    fn compilers(&self, code: &str, message: String) -> WorkerError {
        let known = self.codes.iter().find(|known| **known == code);
        match known {
            Some(code) => WorkerError::Compiler { code, message },
            None => WorkerError::Protocol { problem: message },
        }
    }
}

impl WorkerError {
    /// Whether the same kernel would fail again: it is remembered.
    fn is_of_the_kernel(&self) -> bool {
        matches!(
            self,
            Self::Crashed { .. } | Self::Time { .. } | Self::Memory { .. } | Self::Message { .. }
        )
    }
}

fn key_of(request: &Request, text: &str) -> [u8; 32] {
    let Request {
        target,
        schedule,
        want,
        // These limits allow the kernel's text.
        dims: _,
    } = request;
    let mut key = blake3::Hasher::new();
    let want = format!("{want:?}");
    for part in [
        &target.to_string(),
        &schedule.name,
        &schedule.text,
        &want,
        text,
    ] {
        key.update(&(part.len() as u64).to_le_bytes());
        key.update(part.as_bytes());
    }
    *key.finalize().as_bytes()
}

impl CompilerWrapper for WorkerCompiler {
    type Inner = dyn KernelCompiler;

    fn inner(&self) -> &(dyn KernelCompiler + 'static) {
        &*self.inner
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let failed = |error| failed(kernel, target, schedule, error);
        match self.run(kernel, target, schedule, Want::Artifact, observer) {
            // SAFETY: the worker is this program, or one that was vouched for when it was named; its message is complete.
            Ok(Made::Artifact(parts)) => Ok(unsafe { Artifact::trusted(*parts) }),
            Ok(Made::Failed { code, message }) => Err(failed(self.compilers(&code, message))),
            Ok(Made::Listing(_) | Made::TooLong { .. }) => Err(failed(unexpected())),
            Err(error) => Err(failed(error)),
        }
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        let failed = |error| failed(kernel, target, schedule, error);
        match self.run(kernel, target, schedule, listing.into(), &mut Unobserved) {
            Ok(Made::Listing(listing)) => Ok(listing),
            Ok(Made::Failed { code, message }) => Err(failed(self.compilers(&code, message))),
            Ok(Made::Artifact(_) | Made::TooLong { .. }) => Err(failed(unexpected())),
            Err(error) => Err(failed(error)),
        }
    }

    fn forget_failures(&self) {
        self.remembered.clear();
        KernelCompiler::forget_failures(&*self.inner);
    }
}

fn unexpected() -> WorkerError {
    WorkerError::Protocol {
        problem: "a reply to a different request".to_owned(),
    }
}

fn failed(
    kernel: &VerifiedKernel,
    target: &Target,
    schedule: &Schedule,
    error: WorkerError,
) -> CompileError {
    CompileError {
        kernel: kernel.name().to_owned(),
        target: target.clone(),
        schedule: schedule.clone(),
        code: error.code(),
        source: Box::new(error),
    }
}
