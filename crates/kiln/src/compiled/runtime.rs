//! The runtimes of this process: models with the same device, threads and level share one, and with it kernels and
//! constants.
//!
//! A runtime lives as long as some model uses it.

use super::announce::{Announcements, Announcer, Subscription};
use crate::cache::Cache;
use crate::compiling::Compiling;
use crate::device::{Device, DeviceEntry, DeviceProblem, DeviceSetup, StoredBy};
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::progress::Listener;
use crate::stores::Stores;
use kiln_backend::{KernelCompiler, MemoryLimits, Target};
use kiln_fork_lock::{ForkLazy, ForkLock};
use kiln_kernel_cache::{DiskTier, LruLimits, Tier};
use kiln_lazy_runtime::{CompileBudget, PreferredLayouts, Runtime, RuntimeOptions};
use kiln_program::LayoutPreferences;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The maximum number of threads: no supported machine has more cores.
const MAX_THREADS: usize = 1024;

/// The version that is part of the keys of stored code; see `build.rs`.
pub(crate) const VERSION: &str = env!("KILN_VERSION");

/// A runtime, and the registry of listeners for its compiles.
pub(crate) struct SharedRuntime {
    pub(crate) runtime: Arc<Runtime>,
    /// The device at the requested level.
    pub(crate) device: Device,
    /// None for a runtime supplied by the user.
    announcements: Option<Announcements>,
}

impl SharedRuntime {
    /// Notifies a listener of compiles until the returned guard is dropped.
    pub(crate) fn subscribe(&self, listener: &Listener) -> Option<Subscription> {
        self.announcements.as_ref()?.subscribe(listener)
    }

    /// The layouts that the compiler prefers.
    pub(crate) fn layouts(&self) -> Arc<dyn LayoutPreferences + Send + Sync> {
        Arc::new(PreferredLayouts::of(Arc::clone(&self.runtime)))
    }
}

/// The options that models must have in common to share a runtime.
#[derive(Clone, PartialEq)]
pub(super) struct Key {
    threads: usize,
    compile_threads: usize,
    device: Device,
    target: Target,
    cache: Cache,
    stores: Stores,
    compiling: Compiling,
    kernels: LruLimits,
    launch_plans: NonZeroUsize,
    memory: MemoryLimits,
    loop_iterations: u64,
    live_bytes: u64,
    window_elements: u64,
    #[cfg(feature = "llvm")]
    compile_limits: kiln_compile_worker::CompileLimits,
}

static RUNTIMES: ForkLazy<ForkLock<Known>> = ForkLazy::new(ForkLock::default);

/// Runtimes by key.
type Known = Vec<(Key, Weak<SharedRuntime>)>;

/// The runtime for these options, created unless a model already has one.
///
/// # Errors
/// When the device is unavailable, or the level is unknown or not for this machine; when there are too many threads; when
/// options contradict each other.
pub(crate) fn runtime_for(options: &Options) -> Result<Arc<SharedRuntime>, Error> {
    let device = device_of(options)?;
    if let Some(runtime) = &options.runtime {
        return Ok(Arc::new(SharedRuntime {
            runtime: Arc::clone(runtime),
            device,
            announcements: None,
        }));
    }
    let target = entry_of(&device)?.target(device.level());
    let target = target.map_err(|problem| failed(&device, problem))?;
    let key = key_of(options, device, target)?;
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
    /// The same with no background compiles.
    pub(super) fn without_variants(mut self) -> Self {
        self.compiling.variants = None;
        self
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The set-up passed to the device.
    fn setup(&self) -> DeviceSetup {
        DeviceSetup {
            target: self.target.clone(),
            threads: self.threads,
            compile_threads: self.compile_threads,
            memory: self.memory,
            fewer_products: self.compiling.fewer_products,
            stored_by: None,
            #[cfg(feature = "llvm")]
            compiler: self.compiling.compiler.clone(),
            #[cfg(feature = "llvm")]
            compile_limits: self.compile_limits,
        }
    }
}

/// The requested device, at the requested level.
pub(crate) fn device_of(options: &Options) -> Result<Device, Error> {
    let device = options.device.clone().unwrap_or_default();
    match (&options.target, device.level()) {
        (None, _) => Ok(device),
        // The option and the key of the device name different levels.
        (Some(target), Some(level)) if target != level => {
            Err(device.unknown_level(target, &[level.to_owned()]))
        }
        (Some(target), _) => device.at_level(target),
    }
}

fn entry_of(device: &Device) -> Result<Arc<dyn DeviceEntry>, Error> {
    let entry = device.entry().filter(|_| device.is_available());
    entry.ok_or_else(|| Device::unknown(device.key()))
}

/// Why a device is unavailable.
fn failed(device: &Device, problem: DeviceProblem) -> Error {
    #[cfg(feature = "llvm")]
    let problem = match problem.downcast::<kiln_compile_worker::WorkerError>() {
        Ok(error) => return Failure::Worker(*error).into(),
        Err(problem) => problem,
    };
    Failure::Device {
        device: device.to_string(),
        problem,
    }
    .into()
}

/// A number of threads: one per core by default.
///
/// # Errors
/// When it is zero, or above the maximum.
fn count(threads: Option<usize>, what: &'static str) -> Result<usize, Error> {
    let (bound, limit, given) = match threads {
        None => return Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(0) => ("at least", 1, 0),
        Some(given) if given > MAX_THREADS => ("at most", MAX_THREADS, given),
        Some(threads) => return Ok(threads),
    };
    let failure = Failure::Count {
        bound,
        limit,
        what,
        given,
    };
    Err(failure.into())
}

/// The key of the runtime for these options.
///
/// # Errors
/// When options contradict each other, or request too many threads.
pub(super) fn key_of(options: &Options, device: Device, target: Target) -> Result<Key, Error> {
    options.compiling.check()?;
    let launch_plans = NonZeroUsize::new(options.limits.launch_plans);
    let launch_plans = launch_plans.ok_or(Failure::Count {
        bound: "at least",
        limit: 1,
        what: "launch plans",
        given: 0,
    })?;
    Ok(Key {
        threads: count(options.threads, "threads")?,
        compile_threads: count(options.compiling.threads, "compile threads")?,
        device,
        target,
        cache: options.cache.clone(),
        stores: options.stores.clone(),
        compiling: options.compiling.clone(),
        kernels: options.limits.kernels,
        launch_plans,
        memory: options.limits.memory,
        loop_iterations: options.limits.run.iterations,
        live_bytes: options.limits.run.live_bytes,
        window_elements: options.limits.run.window_elements,
        #[cfg(feature = "llvm")]
        compile_limits: options.limits.compile,
    })
}

fn build(key: &Key) -> Result<SharedRuntime, Error> {
    let disk = key.cache.open();
    let (mut key, stored_by) = (key.clone(), stored_by(key, disk.as_ref()));
    if stored_by.is_some() {
        // Code can only come from the stores: nothing can be compiled.
        key = key.without_variants();
    }
    let compiler = compiler_of(&key, stored_by)?;
    let tiers = key.stores.after(&key.cache);
    assemble(&key, compiler, tiers)
}

/// In a build without a compiler for the CPU: the compiler that made the code of a folder, if the folder records it.
fn stored_by(key: &Key, disk: Option<&DiskTier>) -> Option<StoredBy> {
    #[cfg(not(feature = "llvm"))]
    if !key.device.has_compiler() {
        return Some(super::absent::stored_by(disk, &key.target));
    }
    let _ = (key, disk);
    None
}

/// The compiler of the device.
///
/// # Errors
/// When it is unavailable, such as a worker without a program to run.
pub(super) fn compiler_of(
    key: &Key,
    stored_by: Option<StoredBy>,
) -> Result<Box<dyn KernelCompiler>, Error> {
    let setup = DeviceSetup {
        stored_by,
        ..key.setup()
    };
    let compiler = entry_of(&key.device)?.compiler(&setup);
    compiler.map_err(|problem| failed(&key.device, problem))
}

/// A runtime from a compiler and stores.
///
/// # Errors
/// When the device is unavailable.
pub(super) fn assemble(
    key: &Key,
    compiler: impl KernelCompiler + 'static,
    tiers: Vec<Arc<dyn Tier>>,
) -> Result<SharedRuntime, Error> {
    // The device is made even if this build cannot compile for it: a bundle has its code.
    let entry = key.device.entry();
    let entry = entry.ok_or_else(|| Device::unknown(key.device.key()))?;
    let executor = entry.executor(&key.setup());
    let executor = executor.map_err(|problem| failed(&key.device, problem))?;
    let compiler = Announcer::new(compiler);
    let announcements = compiler.announcements();
    let mut options = RuntimeOptions::new().with_target(key.target.clone());
    options.loop_iterations = key.loop_iterations;
    options.live_bytes = key.live_bytes;
    options.window_elements = key.window_elements;
    VERSION.clone_into(&mut options.version);
    let compiling = &key.compiling;
    let budget = compiling.budget.unwrap_or(Duration::MAX);
    options.cache.memory = key.kernels;
    options.launch_plans = key.launch_plans;
    options.variants = compiling.variants;
    options.deterministic = compiling.deterministic;
    options.policy = compiling.policy;
    options.max_block = compiling.max_block;
    options.compile_timeout = compiling.timeout;
    options.compile_budget = Some(of_process().with_limit(budget));
    options.compile_threads = NonZeroUsize::new(key.compile_threads);
    let runtime = Runtime::new(Some(Arc::new(compiler)), executor, options).with_tiers(tiers);
    Ok(SharedRuntime {
        runtime: Arc::new(runtime),
        device: key.device.clone(),
        announcements: Some(announcements),
    })
}

/// The budget of this process, shared by all its runtimes.
fn of_process() -> &'static CompileBudget {
    static ACCOUNT: ForkLazy<CompileBudget> = ForkLazy::new(|| Duration::MAX.into());
    &ACCOUNT
}
