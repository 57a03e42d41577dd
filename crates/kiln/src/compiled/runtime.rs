//! Runtimes of this process: models that ask for the same threads and target share one, and with it
//! their kernels and constants.
//!
//! A runtime lives as long as some model uses it.

use super::announce::{Announcements, Announcer, Seat};
use crate::cache::Cache;
#[cfg(feature = "llvm")]
use crate::compiler::Compiler;
use crate::error::{Error, Failure};
use crate::options::{Compiling, Options};
use crate::progress::Listener;
use kiln_backend::{IsaLevel, KernelCompiler, MemoryLimits, Target};
#[cfg(feature = "llvm")]
use kiln_codegen_llvm::{LlvmCompiler, LlvmError};
#[cfg(feature = "llvm")]
use kiln_compile_worker::{WorkerCompiler, WorkerProgram};
use kiln_fork_lock::{ForkLazy, ForkLock};
use kiln_kernel_cache::Tier;
use kiln_lazy_runtime::{PreferredLayouts, Runtime, RuntimeOptions, SpinPool};
use kiln_native::NativeExecutor;
use kiln_program::LayoutPreferences;
use kiln_schedule_cpu::target_of;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

/// More threads than this are refused: no machine that Kiln runs on has as many.
const MOST_THREADS: usize = 1024;

/// How many workers there may be beside one for each thread that compiles: threads take over from those whose compile hangs.
#[cfg(feature = "llvm")]
const SPARE_WORKERS: usize = 2;

/// The version that keys of stored code name; see `build.rs`.
pub(super) const VERSION: &str = env!("KILN_VERSION");

/// A runtime, and how to hear of its compiles.
pub(crate) struct SharedRuntime {
    pub(crate) runtime: Arc<Runtime>,
    /// None for a runtime that came from outside.
    announcements: Option<Announcements>,
}

impl SharedRuntime {
    /// Lets a listener hear of compiles until what is returned is dropped.
    pub(crate) fn hear(&self, listener: &Listener) -> Option<Seat> {
        self.announcements.as_ref()?.hear(listener)
    }

    /// The layouts that its compiler prefers.
    pub(crate) fn layouts(&self) -> Arc<dyn LayoutPreferences + Send + Sync> {
        Arc::new(PreferredLayouts::of(Arc::clone(&self.runtime)))
    }
}

/// What decides whether models can share a runtime.
#[derive(Clone, PartialEq)]
pub(super) struct Key {
    threads: usize,
    target: Target,
    cache: Cache,
    compiling: Compiling,
    memory: MemoryLimits,
    loop_iterations: u64,
    live_bytes: u64,
    window_elements: u64,
    #[cfg(feature = "llvm")]
    compiler: crate::compiler::Compiler,
    #[cfg(feature = "llvm")]
    compile_limits: kiln_compile_worker::CompileLimits,
}

static RUNTIMES: ForkLazy<ForkLock<Known>> = ForkLazy::new(ForkLock::default);

/// Runtimes by what decides about them.
type Known = Vec<(Key, Weak<SharedRuntime>)>;

/// The runtime for these options, made if no model has one.
///
/// # Errors
/// When the target is unknown, or not for this machine; when there are too many threads; when options contradict each
/// other.
pub(crate) fn runtime_for(options: &Options) -> Result<Arc<SharedRuntime>, Error> {
    if let Some(runtime) = &options.runtime {
        return Ok(Arc::new(SharedRuntime {
            runtime: Arc::clone(runtime),
            announcements: None,
        }));
    }
    let target = target_of(level(options.target.as_deref())?);
    let key = key_of(options, target)?;
    if !options.shared_kernels {
        return Ok(Arc::new(build(&key)?));
    }
    let mut runtimes = RUNTIMES.lock();
    let known = runtimes.iter().find(|(known, _)| *known == key);
    if let Some(runtime) = known.and_then(|(_, runtime)| runtime.upgrade()) {
        return Ok(runtime);
    }
    runtimes.retain(|(_, runtime)| runtime.strong_count() > 0);
    let runtime = Arc::new(build(&key)?);
    runtimes.push((key, Arc::downgrade(&runtime)));
    Ok(runtime)
}

impl Key {
    /// The same where nothing is compiled in the background.
    pub(super) fn without_variants(mut self) -> Self {
        self.compiling.variants = None;
        self
    }
}

/// What decides about a runtime, by the options.
///
/// # Errors
/// When options contradict each other, or ask for too many threads.
pub(super) fn key_of(options: &Options, target: Target) -> Result<Key, Error> {
    if let Some(what) = options.compiling.contradiction() {
        return Err(Failure::NotDeterministic { what }.into());
    }
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads if threads > MOST_THREADS => {
            return Err(Failure::Threads {
                given: threads,
                limit: MOST_THREADS,
            }
            .into());
        }
        threads => threads,
    };
    Ok(Key {
        threads,
        target,
        cache: options.cache.clone(),
        compiling: options.compiling,
        memory: options.limits.memory,
        loop_iterations: options.limits.run.iterations,
        live_bytes: options.limits.run.live_bytes,
        window_elements: options.limits.run.window_elements,
        #[cfg(feature = "llvm")]
        compiler: options.compiler.clone(),
        #[cfg(feature = "llvm")]
        compile_limits: options.limits.compile,
    })
}

#[cfg(feature = "llvm")]
fn build(key: &Key) -> Result<SharedRuntime, Error> {
    let compiler = compiler_of(key)?;
    let disk = key.cache.open().map(|disk| Arc::new(disk) as Arc<dyn Tier>);
    Ok(assemble(key, compiler, disk.into_iter().collect()))
}

/// Without a compiler: what the stores have is all there is.
#[cfg(not(feature = "llvm"))]
fn build(key: &Key) -> Result<SharedRuntime, Error> {
    let disk = key.cache.open();
    let compiler = super::absent::compiler_of(disk.as_ref(), &key.target, key.compiling);
    let disk = disk.map(|disk| Arc::new(disk) as Arc<dyn Tier>);
    let key = key.clone().without_variants();
    Ok(assemble(&key, compiler, disk.into_iter().collect()))
}

/// The compiler that the options ask for.
///
/// # Errors
/// When it is to be a worker and there is no program to run.
#[cfg(feature = "llvm")]
pub(super) fn compiler_of(key: &Key) -> Result<Box<dyn KernelCompiler>, Error> {
    let llvm = LlvmCompiler::new().with_fewer_products(key.compiling.fewer_products);
    let program = match &key.compiler {
        Compiler::InProcess => return Ok(Box::new(llvm)),
        Compiler::Worker { program: None } => WorkerProgram::current()?,
        Compiler::Worker {
            program: Some(program),
        } => program.clone(),
    };
    let threads = match key.compiling.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let workers = threads.saturating_add(SPARE_WORKERS);
    let limits = key.compile_limits;
    let compiler = WorkerCompiler::new(llvm, LlvmError::CODES, program, limits, workers)?;
    Ok(Box::new(compiler))
}

/// A runtime of a compiler and stores.
pub(super) fn assemble(
    key: &Key,
    compiler: impl KernelCompiler + 'static,
    tiers: Vec<Arc<dyn Tier>>,
) -> SharedRuntime {
    let compiler = Announcer::new(compiler);
    let announcements = compiler.announcements();
    let mut options = RuntimeOptions::new().with_target(key.target.clone());
    options.loop_iterations = key.loop_iterations;
    options.live_bytes = key.live_bytes;
    options.window_elements = key.window_elements;
    VERSION.clone_into(&mut options.version);
    let Compiling {
        policy,
        max_block,
        timeout,
        budget,
        threads,
        variants,
        deterministic,
        // What compiles knows.
        fewer_products: _,
        kernels,
        launch_plans,
    } = key.compiling;
    options.cache.memory = kernels;
    options.launch_plans = launch_plans;
    options.variants = variants;
    options.deterministic = deterministic;
    options.policy = policy;
    options.max_block = max_block;
    options.compile_timeout = timeout;
    options.compile_budget = budget;
    options.compile_threads = NonZeroUsize::new(threads);
    let executor = NativeExecutor::new()
        .with_memory_limits(key.memory)
        .with_pool(Arc::new(SpinPool::new(key.threads)));
    let runtime =
        Runtime::new(Some(Arc::new(compiler)), Arc::new(executor), options).with_tiers(tiers);
    SharedRuntime {
        runtime: Arc::new(runtime),
        announcements: Some(announcements),
    }
}

/// The instruction-set level of that name; none is the highest that this machine has.
fn level(name: Option<&str>) -> Result<IsaLevel, Error> {
    let here = IsaLevel::of_host;
    let unknown = |name: &str| {
        let known: Vec<_> = here().map(IsaLevel::name).collect();
        Failure::UnknownTarget {
            name: name.escape_debug().to_string(),
            expected: if known.is_empty() {
                "none: this machine can only interpret".to_owned()
            } else {
                known.join(", ")
            },
        }
    };
    match name {
        None => Ok(IsaLevel::host().ok_or_else(|| unknown("of this machine"))?),
        Some(name) => Ok(here()
            .find(|level| level.name() == name)
            .ok_or_else(|| unknown(name))?),
    }
}
