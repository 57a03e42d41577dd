//! The service: returns the compiled kernel of a blueprint from memory or from the store, or compiles it.
//!
//! check cache -> compile -> optimise -> validate -> store -> return. Requests are asynchronous; compiles run on
//! threads of the service. Any number of requests for the same kernel compile it once.
//!
//! *Invariants:* no lock is held while anything is compiled, read or written. A compile that panics is an error of its
//! own requests only.

mod flight;
mod metrics;
mod options;
mod queue;

pub(crate) use metrics::Counter;
pub use metrics::ServiceMetrics;
pub use options::ServiceOptions;

use crate::blueprint::Blueprint;
use crate::compile::{BlueprintCompiler, CancelToken, CompileTarget};
use crate::error::ServiceError;
use crate::package::{Package, PackageMetadata};
use crate::store::{PackageStore, Turn};
use flight::{Flight, Waiting};
use kiln::Model;
use metrics::Counters;
use queue::Queue;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request for a compiled kernel.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// The requesting client: clients are served in turn, and each has its own limit.
    pub client: String,
    /// The blueprint to compile.
    pub blueprint: Arc<Blueprint>,
    /// The target to compile for.
    pub target: CompileTarget,
    /// How long the request waits; without a limit if unset.
    pub deadline: Option<Duration>,
}

impl KernelRequest {
    /// A request for this machine's CPU, without a deadline.
    pub fn new(client: impl Into<String>, blueprint: Arc<Blueprint>) -> Self {
        Self {
            client: client.into(),
            blueprint,
            target: CompileTarget::Cpu,
            deadline: None,
        }
    }
}

/// A compiled kernel that passed validation.
#[derive(Clone, Debug)]
pub struct StoredKernel {
    /// The kernel.
    pub model: Model,
    /// The metadata of its package.
    pub metadata: PackageMetadata,
}

/// The result of a request. An error is shared by all requests for the same kernel.
type Answer = Result<Arc<StoredKernel>, Arc<ServiceError>>;

/// A compile that waits for a thread.
struct Job {
    key: String,
    flight: Arc<Flight>,
    request: KernelRequest,
}

/// Compiles, checks, stores and returns kernels. Clones share one service, which stops when the last of them is
/// dropped. It belongs to the process that started it: a forked child must start its own.
///
/// ```no_run
/// use kiln::SealKey;
/// use kiln_service::blueprint::{Blueprint, BlueprintLimits};
/// use kiln_service::{BlueprintCompiler, KernelRequest, KernelService, PackageStore, ServiceOptions};
/// use std::sync::Arc;
///
/// # async fn example(json: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let compiler = BlueprintCompiler::new(SealKey::read("packages.key")?);
/// let service = KernelService::start(compiler, PackageStore::open("packages")?, ServiceOptions::default())?;
/// let blueprint = Arc::new(Blueprint::from_json(json, &BlueprintLimits::default())?);
/// let kernel = service.get(KernelRequest::new("me", blueprint)).await?;
/// println!("compiled in {} ms", kernel.metadata.compile_ms);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KernelService(Arc<Owner>);

/// Stops the threads when the last handle is dropped.
struct Owner {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Inner {
    compiler: BlueprintCompiler,
    store: PackageStore,
    options: ServiceOptions,
    counters: Counters,
    queue: Queue<Job>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Kernels in memory, with the time of their last use in requests.
    kernels: HashMap<String, (Arc<StoredKernel>, u64)>,
    /// Compiles that run or wait, by key.
    flights: HashMap<String, Arc<Flight>>,
    clock: u64,
}

impl KernelService {
    /// Starts a service.
    ///
    /// # Errors
    /// E1433 for an invalid option; E1426 when the system cannot start a thread.
    pub fn start(
        compiler: BlueprintCompiler,
        store: PackageStore,
        options: ServiceOptions,
    ) -> Result<Self, ServiceError> {
        options.check()?;
        let compiler = compiler.with_kernel_cache_unless_set(store.folder());
        let inner = Arc::new(Inner {
            compiler,
            store,
            queue: Queue::new(options.max_queued, options.max_queued_per_client),
            options,
            counters: Counters::default(),
            state: Mutex::default(),
        });
        let mut threads = Vec::new();
        for number in 0..options.compile_threads {
            let inner = Arc::clone(&inner);
            let builder = std::thread::Builder::new().name(format!("kiln-service-{number}"));
            let thread = builder.spawn(move || inner.work());
            threads.push(thread.map_err(ServiceError::store("start a thread", "kiln-service"))?);
        }
        let threads = Mutex::new(threads);
        Ok(Self(Arc::new(Owner { inner, threads })))
    }

    /// The compiled kernel of a blueprint. Dropping the future withdraws the request; its compile is then cancelled if
    /// no other caller waits for it. A request with a deadline has to be made in a tokio runtime with time enabled;
    /// others work on any executor.
    ///
    /// # Errors
    /// E1402 to E1411 for a bad blueprint; E1420 to E1424 when it cannot be compiled or does not pass validation; E1430
    /// when too many requests wait; E1431 to E1436.
    pub async fn get(&self, request: KernelRequest) -> Result<Arc<StoredKernel>, ServiceError> {
        let inner = &self.0.inner;
        let begin = Instant::now();
        inner.counters.requests.add();
        let deadline = request.deadline;
        let mut waiting = match inner.admit(request)? {
            Admitted::Ready(kernel) => return Ok(kernel),
            Admitted::Waiting(waiting) => waiting,
        };
        let answer = match deadline {
            None => waiting.answer().await,
            Some(limit) => match tokio::time::timeout(limit, waiting.answer()).await {
                Ok(answer) => answer,
                Err(_) => {
                    inner.counters.deadlines.add();
                    // The compile continues, because the kernel will be requested again.
                    waiting.leave_running();
                    return Err(ServiceError::Deadline { limit });
                }
            },
        };
        inner.counters.waited(begin.elapsed());
        answer.map_err(ServiceError::from)
    }

    /// The kernel if it is in memory, without waiting or compiling.
    pub fn peek(&self, blueprint: &Blueprint, target: &CompileTarget) -> Option<Arc<StoredKernel>> {
        let key = self.0.inner.compiler.key(blueprint, target);
        self.0.inner.lock().touch(&key)
    }

    /// Drops the kernels in memory; the store keeps its packages.
    pub fn clear_memory(&self) {
        self.0.inner.lock().kernels.clear();
    }

    /// The current counters.
    pub fn metrics(&self) -> ServiceMetrics {
        let inner = &self.0.inner;
        let (in_memory, in_flight) = {
            let state = inner.lock();
            (state.kernels.len(), state.flights.len())
        };
        inner
            .counters
            .snapshot(in_memory, in_flight, inner.queue.len())
    }

    /// The store.
    pub fn store(&self) -> &PackageStore {
        &self.0.inner.store
    }

    /// Stops accepting requests, ends waiting ones with E1432, and waits for running compiles.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl fmt::Debug for KernelService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KernelService")
            .field(&self.metrics())
            .finish()
    }
}

impl Owner {
    fn stop(&self) {
        for job in self.inner.queue.close() {
            self.inner.land(&job, Err(Arc::new(ServiceError::Stopped)));
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The last handle is dropped by a thread of a caller, never by one of these threads.
            let _ = thread.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // No handle is left, so no caller waits for a result.
        for flight in self.inner.lock().flights.values() {
            flight.token().cancel();
        }
        self.stop();
    }
}

/// Counts and logs a package that could not be read or is unusable.
struct Refused;

enum Admitted {
    Ready(Arc<StoredKernel>),
    Waiting(Waiting),
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel if it is in memory; otherwise registers the caller as waiting for it.
    fn admit(&self, request: KernelRequest) -> Result<Admitted, ServiceError> {
        let key = self.compiler.key(&request.blueprint, &request.target);
        let mut state = self.lock();
        if let Some(kernel) = state.touch(&key) {
            self.counters.memory_hits.add();
            return Ok(Admitted::Ready(kernel));
        }
        if let Some(waiting) = state.flights.get(&key).and_then(Flight::join) {
            self.counters.joined.add();
            return Ok(Admitted::Waiting(waiting));
        }
        let flight = Flight::new();
        let Some(waiting) = Flight::join(&flight) else {
            unreachable!("nothing has left a flight that was just made");
        };
        let job = Job {
            key: key.clone(),
            flight: Arc::clone(&flight),
            request,
        };
        let client = job.request.client.clone();
        if let Err(error) = self.queue.push(&client, job) {
            self.counters.refused.add();
            return Err(error);
        }
        state.flights.insert(key, flight);
        Ok(Admitted::Waiting(waiting))
    }

    /// The loop of a compile thread.
    fn work(&self) {
        while let Some(job) = self.queue.pop() {
            if job.flight.token().is_cancelled() {
                self.counters.cancelled.add();
                self.land(&job, Err(Arc::new(ServiceError::Cancelled)));
                continue;
            }
            let answer = catch_unwind(AssertUnwindSafe(|| self.make(&job)));
            let answer = answer.unwrap_or_else(|panic| {
                Err(ServiceError::Panicked {
                    doing: "a compile",
                    message: message_of(&*panic),
                })
            });
            match &answer {
                Ok(_) => {}
                Err(ServiceError::Cancelled) => self.counters.cancelled.add(),
                Err(error) => {
                    self.counters.failures.add();
                    tracing::warn!(code = error.code(), %error, "service.failed");
                }
            }
            self.land(&job, answer.map_err(Arc::new));
        }
    }

    /// The kernel, from the store or compiled.
    fn make(&self, job: &Job) -> Result<Arc<StoredKernel>, ServiceError> {
        let key = &job.key;
        if let Ok(Some(kernel)) = self.loaded(self.store.get_own(key)) {
            self.counters.store_hits.add();
            return Ok(kernel);
        }
        let request = &job.request;
        let token: &CancelToken = job.flight.token();
        let turn = match self.load_shared(key) {
            Ok(Some(kernel)) => return Ok(kernel),
            Ok(None) => self.store.turn(key, || token.is_cancelled()),
            // If the store fails, or its package is unusable, another server's compile is not waited for.
            Err(Refused) => Turn::Compile(None),
        };
        // The claim is kept until the package is stored.
        let _claim = match turn {
            Turn::Compile(claim) => claim,
            Turn::Stored => match self.load_shared(key) {
                Ok(Some(kernel)) => return Ok(kernel),
                Ok(None) | Err(Refused) => None,
            },
        };
        self.counters.compiles.add();
        let result = self
            .compiler
            .run(&request.blueprint, &request.target, token);
        self.counters.compiled(result.time());
        let package = result.into_package()?;
        let stored = match self.store.put(&package) {
            Ok(stored) => stored,
            Err(error) => {
                // The kernel is usable; the next process, or another server, will compile it again.
                match error {
                    ServiceError::SharedStore { .. } => self.counters.shared_failures.add(),
                    _ => self.counters.store_failures.add(),
                }
                tracing::warn!(code = error.code(), %error, "service.store");
                package
            }
        };
        self.open(&stored)
    }

    /// The package in the shared store, opened.
    fn load_shared(&self, key: &str) -> Result<Option<Arc<StoredKernel>>, Refused> {
        let found = self.loaded(self.store.fetch(key));
        if let Ok(Some(_)) = &found {
            self.counters.store_hits.add();
            self.counters.shared_hits.add();
        }
        found
    }

    /// Opens the package that was found. A rejected package is counted, and compiled again.
    fn loaded(
        &self,
        found: Result<Option<Package>, ServiceError>,
    ) -> Result<Option<Arc<StoredKernel>>, Refused> {
        let opened =
            found.and_then(|package| package.map(|package| self.open(&package)).transpose());
        opened.map_err(|error| {
            match error {
                ServiceError::SharedStore { .. } => self.counters.shared_failures.add(),
                _ => self.counters.packages_refused.add(),
            }
            tracing::warn!(code = error.code(), %error, "service.load");
            Refused
        })
    }

    fn open(&self, package: &Package) -> Result<Arc<StoredKernel>, ServiceError> {
        let model = package.open(self.compiler.seal())?;
        let metadata = package.metadata().clone();
        Ok(Arc::new(StoredKernel { model, metadata }))
    }

    /// Ends a flight.
    fn land(&self, job: &Job, answer: Answer) {
        let mut state = self.lock();
        if let Ok(kernel) = &answer {
            state.insert(&job.key, Arc::clone(kernel), self.options.max_kernels);
        }
        let is_own =
            (state.flights.get(&job.key)).is_some_and(|known| Arc::ptr_eq(known, &job.flight));
        if is_own {
            state.flights.remove(&job.key);
        }
        drop(state);
        job.flight.land(answer);
    }
}

impl State {
    /// The kernel of a key, marked as used.
    fn touch(&mut self, key: &str) -> Option<Arc<StoredKernel>> {
        self.clock += 1;
        let (kernel, used) = self.kernels.get_mut(key)?;
        *used = self.clock;
        Some(Arc::clone(kernel))
    }

    /// Keeps a kernel; if there are too many, the least recently used are evicted.
    fn insert(&mut self, key: &str, kernel: Arc<StoredKernel>, most: usize) {
        self.clock += 1;
        self.kernels.insert(key.to_owned(), (kernel, self.clock));
        while self.kernels.len() > most {
            let oldest = self.kernels.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.kernels.remove(&oldest);
        }
    }
}

/// The message of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
