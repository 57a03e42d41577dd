//! The runtime: a compiler, a device, threads, and what they made so far, shared by programs.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kiln_kernel::{KernelCompiler, KernelExecutor, Target, TaskPool, VerifiedKernel};
use kiln_kernel_cache::Tier;
use kiln_symbolic_shape::Binding;
use kiln_timing::Timing;
use smallvec::SmallVec;

use crate::clock::{Clock, SystemClock};
use crate::compile::{
    Choice, Chosen, CompilationStats, CompileRecord, CompiledKernel, ConstantStore, Counters,
    KernelIdentity, Kernels, NoCode, Obtaining, Patience, Permission, Urgency, Wanted, Workers,
};
use crate::error::RuntimeError;
use crate::options::{CompilePolicy, RuntimeOptions};
use crate::parts::Parts;
use crate::recorder::Recorder;

/// Compiles kernels on first use and keeps them; runs them on a device.
///
/// One per process and device is enough: programs that share it share their kernels and constants.
pub struct Runtime {
    parts: Parts,
    options: RuntimeOptions,
    kernels: Arc<Kernels>,
    workers: Workers,
    constants: ConstantStore,
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
        pool: Arc<dyn TaskPool>,
        options: RuntimeOptions,
    ) -> Self {
        let clock = Arc::new(SystemClock::new());
        let parts = Parts {
            compiler,
            executor,
            pool,
            clock,
            tiers: Vec::new(),
            recorder: Recorder::of(Timing::off()),
        };
        Self::of_parts(parts, options)
    }

    fn of_parts(parts: Parts, options: RuntimeOptions) -> Self {
        let machine = || thread::available_parallelism().map_or(1, usize::from);
        let threads = options.compile_threads.map_or_else(machine, usize::from);
        let hung_after = options.compile_timeout.unwrap_or(options.cache.trusted);
        let workers = Workers::new(
            threads,
            usize::from(options.background_threads),
            hung_after,
            Arc::clone(&parts.clock),
        );
        Self {
            kernels: Arc::new(Kernels::new(&parts, &options)),
            workers,
            constants: ConstantStore::default(),
            parts,
            options,
        }
    }

    /// With another clock. To be said before anything is compiled.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let parts = Parts {
            clock,
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// With stores behind memory, the fastest first. To be said before anything is compiled.
    #[must_use]
    pub fn with_tiers(self, tiers: Vec<Arc<dyn Tier>>) -> Self {
        let parts = Parts {
            tiers,
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// With a recorder for what is compiled for no program, and for programs that have none of their own. To be said
    /// before anything is compiled.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Self {
        let parts = Parts {
            recorder: Recorder::of(timing),
            ..self.parts.clone()
        };
        Self::of_parts(parts, self.options.clone())
    }

    /// The recorder of what is compiled for no program.
    pub fn timing(&self) -> &Timing {
        &self.parts.recorder.timing
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.parts.recorder
    }

    /// What it compiles for.
    pub fn target(&self) -> Option<&Target> {
        self.kernels.compiler().map(|(_, target)| target)
    }

    /// The compiler.
    pub fn compiler(&self) -> Option<&dyn KernelCompiler> {
        self.kernels.compiler().map(|(compiler, _)| compiler)
    }

    /// The device.
    pub fn executor(&self) -> &dyn KernelExecutor {
        &*self.parts.executor
    }

    /// The threads.
    pub fn pool(&self) -> &Arc<dyn TaskPool> {
        &self.parts.pool
    }

    /// The options.
    pub fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.parts.clock
    }

    /// What was compiled so far, in order, the first ten thousand.
    pub fn compile_records(&self) -> Vec<CompileRecord> {
        self.kernels.records()
    }

    /// Counters.
    pub fn stats(&self) -> CompilationStats {
        self.counters()
            .read(self.kernels.n_kernels(), self.kernels.cache_stats())
    }

    /// Forgets kernels and constants; programs that run keep theirs until they are planned anew.
    pub fn clear_cache(&self) {
        self.kernels.clear();
        self.constants.clear();
    }

    /// Changes when code becomes ready behind the back of calls.
    pub(crate) fn published(&self) -> u64 {
        self.kernels.published()
    }

    /// The ways to compile a kernel, best first.
    pub(crate) fn choices(&self, identity: &KernelIdentity) -> Vec<Choice> {
        self.kernels.choices(identity)
    }

    /// How many compiles wait for a thread, and how many run.
    pub fn compiling(&self) -> (usize, usize) {
        self.workers.counts()
    }

    /// Waits until nothing is compiled or stored any more, at most so long; says whether that is so.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        self.workers.wait_idle(limit)
    }

    pub(crate) fn constants(&self) -> &ConstantStore {
        &self.constants
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.kernels.counters
    }

    /// Code for kernels, compiled where there is none and the patience lasts.
    pub(crate) fn obtain(
        &self,
        wanted: &[Wanted<'_>],
        patience: &Patience,
        recorder: &Recorder,
    ) -> Vec<Chosen> {
        let obtaining = Obtaining {
            kernels: &self.kernels,
            workers: &self.workers,
            clock: &*self.parts.clock,
            recorder,
        };
        obtaining.obtain(wanted, patience)
    }

    /// Code for kernels that are part of no program, each for values of its symbols.
    pub(crate) fn obtain_alone(
        &self,
        identity: &Arc<KernelIdentity>,
        symbols: &[&[i64]],
    ) -> Vec<Result<Arc<CompiledKernel>, RuntimeError>> {
        let choices = self.kernels.choices(identity);
        let wanted = symbols.iter().map(|symbols| Wanted {
            identity,
            choices: those_that_hold(identity, &choices, symbols),
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let chosen = self.obtain(&wanted, &Patience::ENDLESS, self.recorder());
        let chosen = chosen.into_iter();
        let code = chosen.map(|chosen| match chosen {
            Ok((compiled, _)) => Ok(compiled),
            Err(NoCode::Error(error)) => Err(error),
            Err(NoCode::Later) => Err(RuntimeError::NotCompiled {
                step: format!("kernel @{}", identity.name()),
                reason: "no more time may go into compiling".to_owned(),
            }),
        });
        code.collect()
    }

    /// What a call may wait, from now on. `calls` is how many calls the program had, this one included.
    pub(crate) fn patience(&self, calls: u64) -> Patience {
        let options = &self.options;
        let from_now = |limit: Duration| self.clock().now().saturating_add(limit);
        let mut patience = Patience {
            permission: Permission::Compile(Urgency::Urgent),
            block_until: options.max_block.map(from_now),
            fail_at: options.compile_timeout.map(from_now),
        };
        match options.policy {
            CompilePolicy::FirstUse => {}
            CompilePolicy::AfterCalls(first) if calls >= u64::from(first) => {}
            CompilePolicy::AfterCalls(_) => patience.permission = Permission::LookUp,
            CompilePolicy::AheadOfTime => patience.permission = Permission::Demand,
            CompilePolicy::Background => {
                patience.permission = Permission::Compile(Urgency::Background { worth: 0 });
                let limit = options.max_block.unwrap_or_default();
                patience.block_until = Some(from_now(limit));
            }
        }
        patience
    }
}

/// The choices whose predicates hold for these values of a kernel's symbols.
pub(crate) fn those_that_hold<'a>(
    identity: &KernelIdentity,
    choices: &'a [Choice],
    symbols: &[i64],
) -> SmallVec<[&'a Choice; 2]> {
    let binding = binding_of(&identity.kernel, symbols);
    let dims = identity.kernel.kernel().dims();
    let holds = |choice: &&Choice| {
        let predicates = &mut choice.candidate.predicate.iter();
        predicates.all(|predicate| dims.holds(predicate, &binding) == Ok(true))
    };
    choices.iter().filter(holds).collect()
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
