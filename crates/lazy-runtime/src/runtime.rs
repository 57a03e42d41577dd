//! The runtime: a compiler, a device, threads, and what they made so far, shared by programs.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread;

use kiln_kernel::{
    FALLBACK_SCHEDULE, KernelCompiler, KernelExecutor, Schedule, Target, TaskPool, VerifiedKernel,
};
use kiln_program::{Action, KernelId, Step};
use kiln_symbolic_shape::Binding;

use crate::clock::{Clock, SystemClock};
use crate::compile::{
    CompilationStats, CompileRecord, CompiledKernel, Compiling, ConstantStore, Counters,
    KernelIdentity, KernelStore,
};
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;
use crate::plan::Prepared;

/// Bytes of stack of a thread that compiles: compilers recurse.
const COMPILE_STACK: usize = 64 << 20;

/// Compiles kernels on first use and keeps them; runs them on a device.
///
/// One per process and device is enough: programs that share it share their kernels and constants.
pub struct Runtime {
    compiler: Option<(Arc<dyn KernelCompiler>, Target)>,
    executor: Arc<dyn KernelExecutor>,
    pool: Arc<dyn TaskPool>,
    options: RuntimeOptions,
    clock: Arc<dyn Clock>,
    kernels: KernelStore,
    constants: ConstantStore,
    counters: Counters,
    compile_threads: OnceLock<Option<rayon::ThreadPool>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("device", &self.executor.device())
            .field("target", &self.target())
            .field("threads", &self.pool.threads())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime. Without a compiler, kernels are left to the interpreter.
    pub fn new(
        compiler: Option<Arc<dyn KernelCompiler>>,
        executor: Arc<dyn KernelExecutor>,
        pool: Arc<dyn TaskPool>,
        options: RuntimeOptions,
    ) -> Self {
        let compiler = compiler.map(|compiler| {
            let target = options.target.clone().unwrap_or_else(|| compiler.host());
            (compiler, target)
        });
        Self {
            compiler,
            executor,
            pool,
            options,
            clock: Arc::new(SystemClock::new()),
            kernels: KernelStore::default(),
            constants: ConstantStore::default(),
            counters: Counters::default(),
            compile_threads: OnceLock::new(),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What it compiles for.
    pub fn target(&self) -> Option<&Target> {
        self.compiler.as_ref().map(|(_, target)| target)
    }

    /// The compiler.
    pub fn compiler(&self) -> Option<&dyn KernelCompiler> {
        self.compiler.as_ref().map(|(compiler, _)| &**compiler)
    }

    /// The device.
    pub fn executor(&self) -> &dyn KernelExecutor {
        &*self.executor
    }

    /// The threads.
    pub fn pool(&self) -> &Arc<dyn TaskPool> {
        &self.pool
    }

    /// The options.
    pub fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// What was compiled so far, in order, the first ten thousand.
    pub fn compile_records(&self) -> Vec<CompileRecord> {
        self.kernels.records()
    }

    /// Counters.
    pub fn stats(&self) -> CompilationStats {
        self.counters.read(self.kernels.n_kernels())
    }

    /// Forgets kernels and constants; programs that run keep theirs until they are planned anew.
    pub fn clear_cache(&self) {
        self.kernels.clear();
        self.constants.clear();
    }

    pub(crate) fn constants(&self) -> &ConstantStore {
        &self.constants
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Runs something on the threads that compile, which have room for a compiler's recursion.
    pub(crate) fn on_compile_threads<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let threads = self.compile_threads.get_or_init(|| {
            let machine = || thread::available_parallelism().map_or(1, usize::from);
            let threads = self
                .options
                .compile_threads
                .map_or_else(machine, usize::from);
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .stack_size(COMPILE_STACK)
                .thread_name(|index| format!("kiln-compile-{index}"))
                .build()
                .ok()
        });
        match threads {
            Some(threads) => threads.install(work),
            None => work(),
        }
    }

    /// The kernel for these values of its symbols, compiled if need be: of the schedules whose predicates hold the
    /// first that compiles.
    pub(crate) fn compile_for(
        &self,
        prepared: &Prepared,
        kernel: KernelId,
        symbols: &[i64],
    ) -> Result<(Arc<CompiledKernel>, Schedule), RuntimeError> {
        let Some((compiler, target)) = &self.compiler else {
            return Err(self.no_compiler(prepared.identity(kernel)));
        };
        let identity = prepared.identity(kernel);
        let candidates = prepared.candidates(kernel, &**compiler, target);
        self.compile_first(identity, candidates, symbols)
    }

    /// Compiles a kernel that is part of no program.
    pub(crate) fn compile_alone(
        &self,
        identity: &KernelIdentity,
        symbols: &[i64],
    ) -> Result<(Arc<CompiledKernel>, Schedule), RuntimeError> {
        let Some((compiler, target)) = &self.compiler else {
            return Err(self.no_compiler(identity));
        };
        let candidates = compiler.schedules(&identity.kernel, target);
        self.compile_first(identity, &candidates, symbols)
    }

    fn no_compiler(&self, identity: &KernelIdentity) -> RuntimeError {
        RuntimeError::NotCompiled {
            step: format!("kernel @{}", identity.name()),
            reason: "this runtime has none".to_owned(),
        }
    }

    fn compile_first(
        &self,
        identity: &KernelIdentity,
        candidates: &[kiln_kernel::Candidate],
        symbols: &[i64],
    ) -> Result<(Arc<CompiledKernel>, Schedule), RuntimeError> {
        let Some((compiler, target)) = &self.compiler else {
            return Err(self.no_compiler(identity));
        };
        let ctx = Compiling {
            compiler: &**compiler,
            executor: &*self.executor,
            target,
            clock: &*self.clock,
            counters: &self.counters,
        };
        let binding = binding_of(&identity.kernel, symbols);
        let dims = identity.kernel.kernel().dims();
        let holds = |candidate: &&kiln_kernel::Candidate| {
            let predicates = &mut candidate.predicate.iter();
            predicates.all(|predicate| dims.holds(predicate, &binding) == Ok(true))
        };
        let offered = candidates
            .iter()
            .filter(holds)
            .map(|candidate| candidate.schedule.clone());
        let mut first_error = None;
        for schedule in offered.chain([Schedule::new(FALLBACK_SCHEDULE)]) {
            match self.kernels.get_or_compile(&ctx, identity, &schedule) {
                Ok(compiled) => return Ok((compiled, schedule)),
                Err(error) => {
                    tracing::warn!(%error, %schedule, "a schedule that does not compile");
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| self.no_compiler(identity)))
    }

    /// Whether every kernel of these steps was compiled in some form, so that there is likely little to do.
    pub(crate) fn is_warm(&self, prepared: &Prepared, steps: &[Step]) -> bool {
        steps.iter().all(|step| match &step.action {
            Action::Kernel(launch) => self.kernels.knows(prepared.identity(launch.kernel)),
            _ => true,
        })
    }
}

/// Values of a kernel's symbols, in the order of its table.
pub(crate) fn binding_of(kernel: &VerifiedKernel, symbols: &[i64]) -> Binding {
    kernel
        .kernel()
        .dims()
        .symbols()
        .zip(symbols.iter().copied())
        .collect()
}
