//! The runtime: a compiler, a device, threads, and their results so far, shared by programs.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kiln_backend::{ExecuteError, KernelCompiler, KernelExecutor, Memory, MemoryStats, Target};
use kiln_fork_lock::ForkLock;
use kiln_kernel::VerifiedKernel;
use kiln_kernel_cache::{KeyDigest, Tier};
use kiln_program::PlanOperation;
use kiln_timing::Timing;

use crate::call::CallControl;
use crate::clock::{Clock, SystemClock};
use crate::compile::{
    Choice, CompilationStats, CompileRecord, CompiledKernel, ConstantStore, Counters,
    KernelIdentity, PackedStore, Patience, Permission, Urgency,
};
use crate::manager::LazyCompilationManager;
use crate::options::{CompilePolicy, RuntimeOptions};
use crate::parts::Parts;
use crate::recorder::Recorder;
use crate::run::States;
use crate::variants::{Making, Variant, VariantRecord, Variants};
use crate::watch::Watch;

/// The maximum number of bytes of an arena in excess of those that a call needs.
const MAX_AHEAD: usize = 128 << 20;

/// The maximum time by which a waiting call continues without code before its limit, so as not to be late: compilers
/// keep the cores busy, and a woken thread waits for one for up to a scheduler's slice.
const WAKING: Duration = Duration::from_millis(3);

/// Compiles kernels on first use and keeps them; runs them on a device.
///
/// One per process and device is enough: programs that share it share their kernels and constants.
pub struct Runtime {
    parts: Parts,
    options: RuntimeOptions,
    manager: LazyCompilationManager,
    constants: Arc<ConstantStore>,
    variants: Arc<Variants>,
    /// Memory that programs hold for later runs.
    states: ForkLock<Vec<Weak<States>>>,
    watch: Watch,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("target", &self.target())
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime. Without a compiler, kernels are left to the interpreter.
    pub fn new(
        compiler: Option<Arc<dyn KernelCompiler>>,
        executor: Arc<dyn KernelExecutor>,
        options: RuntimeOptions,
    ) -> Self {
        let clock = Arc::new(SystemClock::new());
        let parts = Parts {
            compiler,
            executor,
            clock,
            tiers: Vec::new(),
            recorder: Recorder::of(Timing::off()),
        };
        Self::of_parts(parts, options)
    }

    fn of_parts(parts: Parts, options: RuntimeOptions) -> Self {
        let device = parts.executor.device();
        let packed = PackedStore::new(parts.tiers.clone(), device, options.version.clone());
        let variants = options.variants.filter(|_| !options.deterministic);
        Self {
            manager: LazyCompilationManager::new(&parts, &options),
            variants: Arc::new(Variants::new(variants)),
            constants: Arc::new(ConstantStore::new(packed)),
            states: ForkLock::default(),
            watch: Watch::default(),
            parts,
            options,
        }
    }

    /// Sets the clock. To be called before anything is compiled.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let parts = Parts {
            clock,
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// Adds stores after memory, the fastest first. To be called before anything is compiled.
    #[must_use]
    pub fn with_tiers(self, tiers: Vec<Arc<dyn Tier>>) -> Self {
        let parts = Parts {
            tiers,
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// With a recorder for programs without one. To be called before anything is compiled.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Self {
        let parts = Parts {
            recorder: Recorder::of(timing),
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// The recorder of programs without one.
    pub fn timing(&self) -> &Timing {
        &self.parts.recorder.timing
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.parts.recorder
    }

    /// The kernels and their compiler.
    pub(crate) fn manager(&self) -> &LazyCompilationManager {
        &self.manager
    }

    /// The target.
    pub fn target(&self) -> Option<&Target> {
        self.manager.kernels().compiler().map(|(_, target)| target)
    }

    /// The compiler.
    pub fn compiler(&self) -> Option<&dyn KernelCompiler> {
        self.manager
            .kernels()
            .compiler()
            .map(|(compiler, _)| compiler)
    }

    /// The device.
    pub fn executor(&self) -> &dyn KernelExecutor {
        &*self.parts.executor
    }

    /// The options.
    pub fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// The watch that cancels running calls.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.parts.clock
    }

    pub(crate) fn shared_executor(&self) -> Arc<dyn KernelExecutor> {
        Arc::clone(&self.parts.executor)
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.parts.clock)
    }

    /// The compile records so far, in order, the first thousand.
    pub fn compile_records(&self) -> Vec<CompileRecord> {
        self.manager.kernels().records()
    }

    /// The variants, why they exist, and the gain of each; in the order in which they were requested.
    pub fn variant_records(&self) -> Vec<VariantRecord> {
        self.variants.records()
    }

    pub(crate) fn variants(&self) -> &Variants {
        &self.variants
    }

    /// Requests a variant in the background: compiled with the first schedule that was not tried yet.
    pub(crate) fn make_variant(
        &self,
        variant: &Arc<Variant>,
        identity: &Arc<KernelIdentity>,
        generic: &Arc<CompiledKernel>,
        worth: Duration,
        recorder: &Recorder,
    ) {
        let Some(options) = self.variants.options() else {
            return;
        };
        let making = Making {
            kernels: Arc::clone(self.manager.kernels()),
            variant: Arc::clone(variant),
            identity: Arc::clone(identity),
            generic: Arc::clone(generic),
            is_allowed: self.options.policy != CompilePolicy::AheadOfTime,
            recorder: recorder.clone(),
            margin: options.margin,
            trusted: self.options.cache.trusted,
        };
        let id =
            KeyDigest::of(format!("{} {:?}", identity.digest_text(), variant.symbols).as_bytes());
        let worth = u64::try_from(worth.as_nanos()).unwrap_or(u64::MAX);
        let job = Box::new(move || making.run());
        let workers = self.manager.workers();
        workers.run(id, Urgency::Background { worth }, job);
    }

    /// Counters.
    pub fn stats(&self) -> CompilationStats {
        let mut stats = self.manager.compilation_stats();
        stats.add_constants(&self.constants.packed.counters);
        stats.add_variants(self.variants.counts());
        stats
    }

    /// Clears kernels and constants in memory; programs keep theirs until they are [cleared](crate::CompiledProgram::clear)
    /// or replanned.
    pub fn clear_cache(&self) {
        self.manager.clear_cache();
        self.constants.clear();
        self.variants.clear();
    }

    /// Changes when code becomes ready in the background.
    pub(crate) fn published(&self) -> u64 {
        self.manager.kernels().published()
    }

    /// When a kernel may be retried for which none of these choices compiled; `None` if there are no choices.
    pub(crate) fn retry_at(&self, choices: &PlanOperation<Choice>) -> Option<Duration> {
        let left = |choice: &Choice| self.manager.kernels().retry_in(&choice.key);
        let least = choices.launches().filter_map(left).min();
        // A panic is not remembered, so the next caller retries at once.
        let delay = least.unwrap_or(self.options.cache.retry_most);
        let mut choices = choices.launches();
        choices
            .next()
            .map(|_| self.clock().now().saturating_add(delay))
    }

    /// The ways to launch a kernel; empty without a compiler.
    pub fn dispatch(&self, kernel: &VerifiedKernel) -> PlanOperation {
        self.manager.kernels().dispatch(kernel)
    }

    /// The statistics of the device's memory pool, if it has one.
    pub fn memory_stats(&self) -> Option<MemoryStats> {
        Some(self.executor().memory_pool()?.stats())
    }

    /// Counters of the device, by name; for example, of the work that it had no code for and that ran elsewhere.
    pub fn device_counts(&self) -> Vec<(&'static str, u64)> {
        self.executor().counts()
    }

    /// Whether the device works; once it is lost, this is always false.
    pub fn is_healthy(&self) -> bool {
        self.executor().is_healthy()
    }

    /// Frees memory that no call needs now: memory that programs hold for later calls, and memory that the device keeps
    /// beyond `keep` bytes. Returns by how many bytes the pool shrank; the next calls take longer.
    pub fn trim_memory(&self, keep: usize) -> usize {
        let held = || {
            let stats = self.memory_stats().unwrap_or_default();
            stats.rented_bytes.saturating_add(stats.kept_bytes)
        };
        let before = held();
        let states = self.states.lock().clone();
        let states = states.iter().filter_map(Weak::upgrade);
        states.for_each(|states| states.clear());
        if let Some(pool) = self.executor().memory_pool() {
            pool.trim(keep);
        }
        before.saturating_sub(held())
    }

    /// Registers the memory that a program holds, to be trimmed when memory is short.
    pub(crate) fn hold(&self, states: &Arc<States>) {
        let mut held = self.states.lock();
        held.retain(|states| states.strong_count() > 0);
        held.push(Arc::downgrade(states));
    }

    /// Memory of the device. If there is not enough, unused memory is freed first.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        match self.executor().alloc(bytes) {
            Err(error) if error.out_of_memory && self.trim_memory(0) > 0 => {
                tracing::info!(bytes, %error, "memory is low: freed memory that no call uses");
                self.executor().alloc(bytes)
            }
            allocated => allocated,
        }
    }

    /// Memory for an arena in place of one of `before` bytes: more than is requested, so that shapes that grow from call to
    /// call do not each touch fresh pages; untouched ones cost nothing.
    pub(crate) fn alloc_arena(&self, bytes: usize, before: usize) -> Result<Memory, ExecuteError> {
        let generous = before
            .saturating_mul(2)
            .min(bytes.saturating_add(MAX_AHEAD));
        self.executor()
            .alloc(bytes.max(generous))
            .or_else(|_| self.alloc(bytes))
    }

    /// The number of compiles that wait for a thread, and of those that run.
    pub fn compiling(&self) -> (usize, usize) {
        self.manager.workers().counts()
    }

    /// Waits until nothing is being compiled or stored, for at most `limit`; returns whether that is so.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        self.manager.workers().wait_idle(limit)
    }

    pub(crate) fn constants(&self) -> &Arc<ConstantStore> {
        &self.constants
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.manager.kernels().counters
    }

    /// Stores packed constants in the background.
    pub(crate) fn store_constants(&self, recorder: &Recorder) {
        let store = &self.constants.packed;
        if let Some(work) = store.storing(&self.parts.executor, recorder) {
            let id = KeyDigest::of(b"packed constants");
            self.manager.workers().run(id, Urgency::Urgent, work);
        }
    }

    /// How long a call may wait, from now on. `calls` is the number of calls of the program, including this one.
    pub(crate) fn patience<'a>(
        &self,
        calls: u64,
        control: Option<&'a CallControl>,
    ) -> Patience<'a> {
        let options = &self.options;
        let from_now = |limit: Duration| self.clock().now().saturating_add(limit);
        let waking = |limit: Duration| (limit / 4).min(WAKING);
        let wait_from_now = |limit: Duration| from_now(limit.saturating_sub(waking(limit)));
        let mut patience = Patience {
            permission: Permission::Compile(Urgency::Urgent),
            block_until: options.max_block.map(wait_from_now),
            fail_at: options.compile_timeout.map(from_now),
            control,
        };
        match options.policy {
            CompilePolicy::FirstUse => {}
            CompilePolicy::AfterCalls(first) if calls >= u64::from(first) => {}
            CompilePolicy::AfterCalls(_) => patience.permission = Permission::LookUp,
            CompilePolicy::AheadOfTime => patience.permission = Permission::Demand,
            CompilePolicy::Background => {
                patience.permission = Permission::Compile(Urgency::Background { worth: 0 });
                let limit = options.max_block.unwrap_or_default();
                patience.block_until = Some(wait_from_now(limit));
            }
        }
        patience
    }
}
