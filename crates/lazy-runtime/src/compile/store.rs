//! Compiled kernels in memory: by key, each compiled once however many threads ask for it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kiln_ir::Digest;
use kiln_kernel::{
    Artifact, CompileError, KernelCompiler, KernelExecutor, Key, KeyFields, LoadedKernel, Schedule,
    Target, VerifiedKernel, stable_key,
};

use super::record::{CompileReason, CompileRecord, PhaseTimes};
use super::stats::Counters;
use crate::clock::Clock;
use crate::error::RuntimeError;

/// How many records of compiles are kept.
const RECORDS: usize = 10_000;

/// A kernel that can be launched.
#[derive(Debug)]
pub struct CompiledKernel {
    /// The code and its metadata.
    pub artifact: Artifact,
    /// The same, callable.
    pub loaded: LoadedKernel,
    /// The key it was compiled under.
    pub key: String,
}

/// A kernel and its text: made once per program.
#[derive(Clone, Debug)]
pub(crate) struct KernelIdentity {
    /// Under the name that records, errors and crash reports say, which is no part of the key.
    pub(crate) kernel: VerifiedKernel,
    text: String,
    digest: Digest,
}

impl KernelIdentity {
    /// The identity of a canonical kernel that people know by another name.
    pub(crate) fn of(kernel: &VerifiedKernel, name: &str) -> Self {
        let text = kiln_kernel::text::print(&kernel.kernel().clone().renamed("k"));
        let digest = Digest::of_text(&text);
        Self {
            kernel: kernel.labelled(name),
            text,
            digest,
        }
    }

    /// What it is called in records.
    pub(crate) fn name(&self) -> &str {
        self.kernel.name()
    }

    fn key(&self, compiler: &dyn KernelCompiler, target: &Target, schedule: &Schedule) -> Key {
        stable_key(&KeyFields {
            kernel: self.text.clone(),
            variant: BTreeSet::new(),
            schedule: schedule.clone(),
            target: target.clone(),
            features: BTreeSet::new(),
            kiln: env!("CARGO_PKG_VERSION").to_owned(),
            compiler: compiler.version(),
            options: BTreeMap::new(),
        })
    }
}

/// Why a kernel has no code.
#[derive(Clone, Debug)]
enum Failure {
    Compile(Arc<CompileError>),
    Load(Arc<kiln_kernel::ExecuteError>, String),
}

type Entry = Arc<OnceLock<Result<Arc<CompiledKernel>, Failure>>>;

/// The kernels of a runtime.
#[derive(Debug, Default)]
pub(crate) struct KernelStore {
    entries: Mutex<HashMap<Key, Entry>>,
    known: Mutex<HashSet<Digest>>,
    records: Mutex<Vec<CompileRecord>>,
}

/// What compiling needs.
pub(crate) struct Compiling<'a> {
    pub(crate) compiler: &'a dyn KernelCompiler,
    pub(crate) executor: &'a dyn KernelExecutor,
    pub(crate) target: &'a Target,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) counters: &'a Counters,
}

impl KernelStore {
    /// The kernel with a schedule, compiled if it is not there. Of threads that ask at one time one compiles.
    pub(crate) fn get_or_compile(
        &self,
        ctx: &Compiling<'_>,
        identity: &KernelIdentity,
        schedule: &Schedule,
    ) -> Result<Arc<CompiledKernel>, RuntimeError> {
        let key = identity.key(ctx.compiler, ctx.target, schedule);
        let entry = Arc::clone(lock(&self.entries).entry(key).or_default());
        let mut is_new = false;
        let result = entry.get_or_init(|| {
            is_new = true;
            self.compile(ctx, identity, schedule, key)
        });
        Counters::count(if is_new {
            &ctx.counters.misses
        } else {
            &ctx.counters.hits
        });
        match result {
            Ok(compiled) => Ok(Arc::clone(compiled)),
            Err(Failure::Compile(error)) => Err(RuntimeError::Compile(Arc::clone(error))),
            Err(Failure::Load(error, kernel)) => Err(RuntimeError::Execute {
                context: format!("cannot load kernel @{kernel}"),
                error: Arc::clone(error),
            }),
        }
    }

    fn compile(
        &self,
        ctx: &Compiling<'_>,
        identity: &KernelIdentity,
        schedule: &Schedule,
        key: Key,
    ) -> Result<Arc<CompiledKernel>, Failure> {
        let kernel = &identity.kernel;
        let name = identity.name();
        let span = tracing::info_span!("runtime.compile", kernel = name, %schedule);
        let _entered = span.enter();
        let is_new = lock(&self.known).insert(identity.digest);
        let begin = ctx.clock.now();
        let mut observer = PhaseTimes::new(ctx.clock);
        let artifact = ctx
            .compiler
            .compile(kernel, ctx.target, schedule, &mut observer);
        let compiled = ctx.clock.now();
        let result = match artifact {
            Err(error) => Err(Failure::Compile(Arc::new(error))),
            Ok(artifact) => match ctx.executor.load(&artifact) {
                Err(error) => Err(Failure::Load(Arc::new(error), name.to_owned())),
                Ok(loaded) => Ok(Arc::new(CompiledKernel {
                    artifact,
                    loaded,
                    key: key.to_string(),
                })),
            },
        };
        let end = ctx.clock.now();
        let total = end.saturating_sub(begin);
        let record = CompileRecord {
            kernel: name.to_owned(),
            class: kernel.classification().class,
            key: key.to_string(),
            target: ctx.target.clone(),
            schedule: schedule.clone(),
            reason: if is_new {
                CompileReason::FirstUse
            } else {
                CompileReason::NewVariant
            },
            phases: observer.times,
            load: end.saturating_sub(compiled),
            total,
            code_bytes: result
                .as_ref()
                .map_or(0, |compiled| compiled.artifact.code.len()),
            error: match &result {
                Ok(_) => None,
                Err(Failure::Compile(error)) => Some(error.to_string()),
                Err(Failure::Load(error, _)) => Some(error.to_string()),
            },
        };
        Counters::count(&ctx.counters.compilations);
        let nanoseconds = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
        ctx.counters
            .compile_nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
        if record.error.is_some() {
            Counters::count(&ctx.counters.failures);
        } else if record.is_contraction_left_to_fallback() {
            Counters::count(&ctx.counters.fallback_contractions);
        }
        tracing::info!(
            key = record.key, reason = %record.reason, time = ?total, bytes = record.code_bytes,
            error = record.error, "compiled"
        );
        let mut records = lock(&self.records);
        if records.len() < RECORDS {
            records.push(record);
        }
        result
    }

    /// Whether a kernel was compiled, in whatever variant.
    pub(crate) fn knows(&self, identity: &KernelIdentity) -> bool {
        lock(&self.known).contains(&identity.digest)
    }

    /// What was compiled so far, the first ten thousand.
    pub(crate) fn records(&self) -> Vec<CompileRecord> {
        lock(&self.records).clone()
    }

    /// How many kernels were compiled, whatever the variants.
    pub(crate) fn n_kernels(&self) -> usize {
        lock(&self.known).len()
    }

    /// Forgets every kernel. Those in use live on until nothing uses them.
    pub(crate) fn clear(&self) {
        lock(&self.entries).clear();
        lock(&self.known).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
