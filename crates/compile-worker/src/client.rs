//! [`WorkerCompiler`]: a compiler as the runtime sees it, which lets workers do what can go wrong.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_fork_lock::ForkLock;
use kiln_kernel::{
    Artifact, Candidate, CompileError, CompileObserver, KernelCompiler, Listing, Schedule, Target,
    Unobserved, VerifiedKernel, text,
};

use crate::error::WorkerError;
use crate::limits::CompileLimits;
use crate::message::{Request, Want};
use crate::pool::Pool;
use crate::process::{Lost, Made};
use crate::program::WorkerProgram;

/// How many kernels that end their worker are remembered.
const REMEMBERED: usize = 1000;

/// How many workers may turn out to be dead before one reads a request.
const TRIES: usize = 3;

/// A compiler whose work is done in worker processes.
///
/// What decides (versions, targets, schedules) is asked of the inner compiler in this process; `compile` and `listing` are
/// sent to a worker whose compiler has the same version. A kernel that crashed its worker, or took more than the limits
/// allow, is remembered as long as this lives: it fails at once, with the same error, and costs no worker again.
pub struct WorkerCompiler {
    inner: Box<dyn KernelCompiler>,
    codes: &'static [&'static str],
    program: WorkerProgram,
    limits: CompileLimits,
    most: usize,
    pool: ForkLock<Option<(u32, Arc<Pool>)>>,
    remembered: ForkLock<Remembered>,
    lost: AtomicU64,
}

/// Kernels that ended their workers, the oldest first.
#[derive(Default)]
struct Remembered {
    errors: BTreeMap<[u8; 32], WorkerError>,
    order: VecDeque<[u8; 32]>,
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
    /// Compiles as `inner` does, in at most `most` workers at one time. `codes` are the codes of the inner compiler's
    /// errors. The first worker is started now.
    ///
    /// # Errors
    /// E0508 when no thread can be made that starts workers.
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
            remembered: ForkLock::default(),
            lost: AtomicU64::new(0),
        };
        compiler.pool()?;
        Ok(compiler)
    }

    /// How many workers were lost to kernels: crashed, or ended by a limit or a cancellation.
    pub fn n_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The workers of this process. A forked child begins its own, and leaves those of its parent alone.
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
        // A parent's: its locks may be held by threads that do not exist here.
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
        };
        let key = key_of(&request, &text);
        if let Some(error) = self.remembered.lock().errors.get(&key) {
            return Err(error.clone());
        }
        let made = self.try_workers(&request, &text, observer);
        if let Err(error) = &made
            && error.is_of_the_kernel()
        {
            self.remembered.lock().note(key, error);
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
        let compiler = self.inner.version();
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
                    tracing::debug!(%error, "a compile worker was dead before it was used");
                }
                // What earlier compiles left is not this kernel's doing.
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

    /// A compiler's own error, under a code that is known.
    fn compilers(&self, code: &str, message: String) -> WorkerError {
        let known = self.codes.iter().find(|known| **known == code);
        match known {
            Some(code) => WorkerError::Compiler { code, message },
            None => WorkerError::Protocol { problem: message },
        }
    }
}

impl WorkerError {
    /// Whether the same kernel would meet it again: it is remembered.
    fn is_of_the_kernel(&self) -> bool {
        matches!(
            self,
            Self::Crashed { .. } | Self::Time { .. } | Self::Memory { .. } | Self::Message { .. }
        )
    }
}

impl Remembered {
    fn note(&mut self, key: [u8; 32], error: &WorkerError) {
        if self.errors.insert(key, error.clone()).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.errors.remove(&oldest);
        }
    }
}

fn key_of(request: &Request, text: &str) -> [u8; 32] {
    let Request {
        target,
        schedule,
        want,
    } = request;
    // Neither prints a line break.
    let key = format!("{target}\n{schedule}\n{want:?}\n{text}");
    *blake3::hash(key.as_bytes()).as_bytes()
}

impl KernelCompiler for WorkerCompiler {
    fn version(&self) -> String {
        self.inner.version()
    }

    fn host(&self) -> Target {
        self.inner.host()
    }

    fn features(&self, target: &Target) -> Vec<String> {
        self.inner.features(target)
    }

    fn supports(&self, target: &Target) -> bool {
        self.inner.supports(target)
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        self.inner.schedules(kernel, target)
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
            Ok(Made::Artifact(artifact)) => Ok(*artifact),
            Ok(Made::Failed { code, message }) => Err(failed(self.compilers(&code, message))),
            Ok(Made::Listing(_)) => Err(failed(unexpected())),
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
            Ok(Made::Artifact(_)) => Err(failed(unexpected())),
            Err(error) => Err(failed(error)),
        }
    }
}

fn unexpected() -> WorkerError {
    WorkerError::Protocol {
        problem: "another reply than was asked for".to_owned(),
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
