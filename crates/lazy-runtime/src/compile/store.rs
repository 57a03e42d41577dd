//! The kernels of a runtime: found in memory or a tier, or compiled, each once for all callers.
//!
//! [`Kernels`] has everything that a compile needs and no threads, so a job may hold it for any length of time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_backend::{
    Artifact, KernelCompiler, KernelExecutor, LaunchContext, LaunchNumbers, LoadedKernel, Schedule,
    Target,
};
use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_ir::Digest;
use kiln_kernel::VerifiedKernel;
use kiln_kernel_cache::{
    Begin, CacheKey, CacheStats, Failure, Found, KeyDigest, MissReport, Source, StoredHeads,
    Ticket, TierMiss, TieredCache, Waiter,
};
use kiln_program::{PlanOperation, RuntimeShapeInjector};
use kiln_timing::Counter;

use super::budget::CompileBudget;
use super::codec::KernelCodec;
use super::failure::KernelFailure;
use super::identity::KernelIdentity;
use super::record::{CompileReason, CompileRecord, PhaseTimes};
use super::stats::Counters;
use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;
use crate::parts::Parts;
use crate::recorder::Recorder;

/// The number of compile records that are kept.
const RECORDS: usize = 1_000;

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct CompiledKernel {
    /// The code and its metadata.
    pub(crate) artifact: Artifact,
    /// The loaded code.
    pub(crate) loaded: LoadedKernel,
    /// The key under which it was compiled.
    pub(crate) key: String,
}

impl CompiledKernel {
    /// The numbers of a launch.
    ///
    /// # Errors
    /// `E0867` if there are none for these sizes.
    pub(crate) fn numbers(&self, ctx: &LaunchContext<'_>) -> Result<LaunchNumbers, RuntimeError> {
        let numbers = self.artifact.numbers(ctx);
        numbers.map_err(|error| RuntimeError::Launch {
            kernel: format!("kernel @{}", self.artifact.kernel),
            error,
        })
    }
}

/// A schedule with the key of its code: what a kernel's dispatch launches.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) schedule: Schedule,
    pub(crate) key: CacheKey,
}

/// The immediate result of a request for a kernel.
pub(crate) enum Asked {
    /// Code.
    Ready(Arc<CompiledKernel>),
    /// Unavailable, and why.
    Failed(Failure<KernelFailure>),
    /// The caller compiles it, on any thread.
    Lead(Ticket<CompiledKernel, KernelFailure>),
    /// Another caller is compiling it.
    Follow(Waiter<CompiledKernel, KernelFailure>),
}

/// The kernels of a runtime.
pub(crate) struct Kernels {
    compiler: Option<(Arc<dyn KernelCompiler>, Target)>,
    executor: Arc<dyn KernelExecutor>,
    clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    cache: TieredCache<CompiledKernel, KernelFailure>,
    /// The kernels that have or had code.
    known: Arc<ForkLock<HashSet<Digest>>>,
    records: ForkLock<Vec<CompileRecord>>,
    /// Keys of compiles that a cancelled call waited for: those that no other call waits for are ended.
    cancelled: ForkLock<HashSet<KeyDigest>>,
    /// The contents of the tiers when the first kernel was compiled.
    stored: ForkCell<StoredHeads>,
    /// Counts compiles on the threads that succeeded or failed.
    published: AtomicU64,
    /// Counts how often everything was cleared.
    generation: AtomicU64,
    version: String,
    trusted: Duration,
    budget: CompileBudget,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").finish_non_exhaustive()
    }
}

impl Kernels {
    pub(crate) fn new(parts: &Parts, options: &RuntimeOptions) -> Self {
        let compiler = parts.compiler.as_ref().map(|compiler| {
            let target = options.target.clone().unwrap_or_else(|| compiler.host());
            (Arc::clone(compiler), target)
        });
        let executor: Arc<dyn KernelExecutor> = Arc::clone(&parts.executor);
        Self {
            compiler,
            executor: Arc::clone(&executor),
            clock: Arc::clone(&parts.clock),
            counters: Counters::default(),
            cache: TieredCache::with_tiers(
                KernelCodec { executor },
                Arc::clone(&parts.clock),
                options.cache,
                parts.tiers.clone(),
            ),
            known: Arc::default(),
            records: ForkLock::default(),
            stored: ForkCell::new(),
            cancelled: ForkLock::default(),
            published: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            version: options.version.clone(),
            trusted: options.cache.trusted,
            budget: options
                .compile_budget
                .clone()
                .unwrap_or_else(|| Duration::MAX.into()),
        }
    }

    pub(crate) fn compiler(&self) -> Option<(&dyn KernelCompiler, &Target)> {
        let (compiler, target) = self.compiler.as_ref()?;
        Some((&**compiler, target))
    }

    /// The ways to launch a kernel, as offered by the compiler. Empty without a compiler.
    pub(crate) fn dispatch(&self, kernel: &VerifiedKernel) -> PlanOperation {
        let Some((compiler, target)) = self.compiler() else {
            return PlanOperation::Dispatch { cases: Vec::new() };
        };
        let injector = RuntimeShapeInjector::new(kernel.kernel().dims());
        injector.generate_shape_dispatch(compiler.schedules(kernel, target))
    }

    /// A kernel's dispatch, with the key of the code in each case.
    pub(crate) fn choices(&self, identity: &KernelIdentity) -> PlanOperation<Choice> {
        let Some((compiler, target)) = self.compiler() else {
            return PlanOperation::Dispatch { cases: Vec::new() };
        };
        let dispatch = self.dispatch(&identity.kernel);
        dispatch.map(|schedule| Choice {
            key: identity.key(compiler, target, &schedule, &self.version),
            schedule,
        })
    }

    /// The key of a kernel's code; `None` without a compiler.
    pub(crate) fn key(&self, identity: &KernelIdentity, schedule: &Schedule) -> Option<CacheKey> {
        let (compiler, target) = self.compiler()?;
        Some(identity.key(compiler, target, schedule, &self.version))
    }

    /// A kernel in memory, or how to obtain it.
    pub(crate) fn ask(&self, identity: &KernelIdentity, key: &CacheKey) -> Asked {
        match self.cache.begin(key) {
            Begin::Ready(found) => Asked::Ready(self.found(identity, found)),
            Begin::Failed(failure) => Asked::Failed(failure),
            Begin::Lead(ticket) => Asked::Lead(ticket),
            Begin::Follow(waiter) => Asked::Follow(waiter),
        }
    }

    /// Records a hit of a kernel.
    pub(crate) fn found(
        &self,
        identity: &KernelIdentity,
        found: Found<CompiledKernel>,
    ) -> Arc<CompiledKernel> {
        if found.source != Source::Memory {
            self.known.lock().insert(identity.digest());
        }
        found.value
    }

    /// Fulfils a ticket: from a tier, or by compiling if that is `allowed`. The waiters are notified.
    pub(crate) fn fulfil(
        &self,
        ticket: Ticket<CompiledKernel, KernelFailure>,
        identity: &KernelIdentity,
        schedule: &Schedule,
        allowed: bool,
        recorder: &Recorder,
    ) -> Option<Result<Found<CompiledKernel>, Failure<KernelFailure>>> {
        let _span = recorder.stores();
        let (accounts, known) = (recorder.clone(), Arc::clone(&self.known));
        let digest = identity.digest();
        let ticket = ticket.first_telling(move |source| {
            accounts.count_source(source);
            if *source != Source::Memory {
                known.lock().insert(digest);
            }
        });
        let result = if !allowed || self.is_budget_spent() {
            // Missing code may be requested again.
            let found = ticket.look_up(|| {
                recorder.count(Counter::Miss);
                if allowed {
                    Counters::count(&self.counters.over_budget);
                }
            });
            found.map(Ok)
        } else {
            Some(self.compile_with(ticket, identity, schedule, recorder))
        };
        self.published.fetch_add(1, Ordering::Release);
        result
    }

    /// A call that waited for this key was cancelled: a running compile is ended if no other call waits for it.
    pub(crate) fn cancel(&self, key: KeyDigest) {
        self.cancelled.lock().insert(key);
    }

    fn compile_with(
        &self,
        ticket: Ticket<CompiledKernel, KernelFailure>,
        identity: &KernelIdentity,
        schedule: &Schedule,
        recorder: &Recorder,
    ) -> Result<Found<CompiledKernel>, Failure<KernelFailure>> {
        let key = ticket.key().clone();
        let mut number = None;
        let digest = key.digest();
        let n_waiting = ticket.counting_waiters();
        let is_cancelled = || {
            let is_wanted = n_waiting.as_ref().is_none_or(|n_waiting| n_waiting() > 0);
            !is_wanted && self.cancelled.lock().contains(&digest)
        };
        // An earlier cancellation concerns another compile.
        self.cancelled.lock().remove(&digest);
        let ticket = ticket.giving_up_on(KernelFailure::is_cancelled);
        let found = ticket.compile(self.trusted, || {
            recorder.count(Counter::Miss);
            let (result, record) = self.compile(identity, schedule, &key, recorder, &is_cancelled);
            // Before any waiter is notified. A cancelled compile is not a failure and has no record.
            if !result.as_ref().is_err_and(KernelFailure::is_cancelled) {
                number = self.note(record);
            }
            result
        });
        if let (Some(number), Ok(found)) = (number, &found)
            && let Source::Compiled { misses, .. } = &found.source
            && let Some(record) = self.records.lock().get_mut(number)
        {
            record.misses = misses.iter().map(TierMiss::to_string).collect();
        }
        found
    }

    fn compile(
        &self,
        identity: &KernelIdentity,
        schedule: &Schedule,
        key: &CacheKey,
        recorder: &Recorder,
        is_cancelled: &dyn Fn() -> bool,
    ) -> (Result<CompiledKernel, KernelFailure>, CompileRecord) {
        let kernel = &identity.kernel;
        let name = identity.name();
        let span = tracing::info_span!("runtime.compile", kernel = name, %schedule);
        let _entered = span.enter();
        let reason = self.reason(identity, key);
        let timing = &recorder.timing;
        let generation = self.generation.load(Ordering::Relaxed);
        let function = recorder.function_to_compile(identity, generation);
        let begin = self.clock.now();
        let mut observer = PhaseTimes::new(&*self.clock, timing, function.codegen, is_cancelled);
        let (compiler, target) = match &self.compiler {
            Some((compiler, target)) => (compiler, target),
            None => unreachable!("without a compiler there are no schedules to ask for"),
        };
        let key = key.digest().to_string();
        let facts = identity.facts();
        let specialization = format!("{schedule} at {facts} for {target}");
        let mut compiled = begin;
        let result = timing.specialize_and_compile(&function, &specialization, || {
            let artifact = compiler.compile(kernel, target, schedule, &mut observer);
            compiled = self.clock.now();
            let artifact = artifact.map_err(|error| KernelFailure::Compile(Arc::new(error)))?;
            let _part = timing.part("load");
            match self.executor.load(&artifact) {
                Err(error) => Err(KernelFailure::Load(Arc::new(error), name.to_owned())),
                Ok(loaded) => Ok(CompiledKernel {
                    artifact,
                    loaded,
                    key: key.clone(),
                }),
            }
        });
        let end = self.clock.now();
        let record = CompileRecord {
            kernel: name.to_owned(),
            class: kernel.classification().class,
            key,
            target: target.clone(),
            schedule: schedule.clone(),
            facts,
            reason,
            misses: Vec::new(),
            phases: observer.times,
            load: end.saturating_sub(compiled),
            total: end.saturating_sub(begin),
            code_bytes: result
                .as_ref()
                .map_or(0, |compiled| compiled.artifact.code.len()),
            error: result.as_ref().err().map(ToString::to_string),
        };
        (result, record)
    }

    /// Why a kernel is compiled: it is known in a different form, here or in a tier, or it is new.
    fn reason(&self, identity: &KernelIdentity, key: &CacheKey) -> CompileReason {
        if self.known.lock().contains(&identity.digest()) {
            return CompileReason::NewVariant;
        }
        let stored = self.stored.get_or_init(|| self.cache.stored_heads());
        match stored.nearest(key) {
            Some(nearest) => CompileReason::KeyDiffers {
                differences: nearest
                    .differences
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            },
            None => CompileReason::FirstUse,
        }
    }

    /// Counts a compile and keeps its record; returns the record's position.
    fn note(&self, record: CompileRecord) -> Option<usize> {
        let counters = &self.counters;
        Counters::count(&counters.compilations);
        let nanoseconds = u64::try_from(record.total.as_nanos()).unwrap_or(u64::MAX);
        counters
            .compile_nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
        self.budget.charge(nanoseconds);
        if record.error.is_some() {
            Counters::count(&counters.failures);
        } else if record.is_contraction_left_to_fallback() {
            Counters::count(&counters.fallback_contractions);
        }
        tracing::info!(
            key = record.key, reason = %record.reason, time = ?record.total, bytes = record.code_bytes,
            error = record.error, "compiled"
        );
        let mut records = self.records.lock();
        (records.len() < RECORDS).then(|| {
            records.push(record);
            records.len() - 1
        })
    }

    /// Whether the compile-time budget is spent.
    pub(crate) fn is_budget_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// The compile-time budget.
    pub(crate) fn budget(&self) -> &CompileBudget {
        &self.budget
    }

    /// Changes when a request on the threads succeeds or fails.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// A request was withdrawn.
    pub(crate) fn note_change(&self) {
        self.published.fetch_add(1, Ordering::Release);
    }

    /// The time until a compile that failed may be tried again, if it failed and is not due.
    pub(crate) fn retry_in(&self, key: &CacheKey) -> Option<Duration> {
        self.cache.retry_in(key)
    }

    /// The reason for which a key would be compiled now.
    pub(crate) fn explain(&self, key: &CacheKey) -> MissReport {
        self.cache.explain(key)
    }

    /// The compile records so far, the first thousand.
    pub(crate) fn records(&self) -> Vec<CompileRecord> {
        self.records.lock().clone()
    }

    /// The number of kernels that have or had code, regardless of variants.
    pub(crate) fn n_kernels(&self) -> usize {
        self.known.lock().len()
    }

    pub(crate) fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Clears every kernel in memory. Those in use stay alive until nothing uses them.
    pub(crate) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.cache.clear_memory();
        self.known.lock().clear();
    }
}
