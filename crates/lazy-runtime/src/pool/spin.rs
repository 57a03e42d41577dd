//! A thread pool whose workers spin for a while, then park.
//!
//! One job runs at a time: a caller that finds the pool busy (another thread's launch, or its own from within a task)
//! runs its tasks alone, so every caller makes progress. Tasks are claimed in chunks from a counter.
//!
//! Correctness: a worker accesses a job only while it holds the read lock of the job's slot, and the caller does not return
//! before it has held the write lock and emptied the slot. Then no worker is in the job, every claimed task is done, and
//! the counter is free for the next job. A model checker runs this file in every interleaving.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, TryLockError};

use crossbeam_utils::CachePadded;
use kiln_backend::{Job, TaskPool};

use super::sync::thread::{self, JoinHandle};
use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, RwLock, spin_loop,
    spins,
};

/// How often a worker looks for a job before it parks: some tens of microseconds.
const SPINS: u32 = spins(3000);

/// How often the caller checks whether the workers are done before it yields between two checks.
const CALLER_SPINS: u32 = spins(10_000);

/// Chunks per thread: small enough that threads end together, large enough that claiming is rare.
const CHUNKS: u64 = 8;

/// A pool of threads that lives until it is dropped.
///
/// In a forked child there are no workers; the caller then runs every task. A launch does not check which process it is
/// in: that is a system call, which takes as long as the rest of a launch.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use kiln_backend::{Job, TaskPool};
/// use kiln_lazy_runtime::SpinPool;
///
/// struct Sum(AtomicU64);
/// impl Job for Sum {
///     fn run(&self, _worker: usize, first: u64, last: u64) {
///         self.0.fetch_add((first..last).sum(), Ordering::Relaxed);
///     }
/// }
///
/// let pool = SpinPool::new(2);
/// let sum = Arc::new(Sum(AtomicU64::new(0)));
/// let job: Arc<dyn Job> = sum.clone();
/// pool.run(&job, 1000);
/// assert_eq!(sum.0.load(Ordering::Relaxed), 499_500);
/// ```
#[derive(Debug)]
pub struct SpinPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    process: u32,
}

#[derive(Debug, Default)]
struct Shared {
    watched: CachePadded<Watched>,
    offered: CachePadded<Offered>,
    /// Whether a caller holds the pool.
    busy: AtomicBool,
    parking: Mutex<()>,
    wake: Condvar,
}

/// The data that waiting workers poll: nothing that changes during a job.
#[derive(Debug, Default)]
struct Watched {
    /// Counts published jobs.
    published: AtomicU64,
    parked: AtomicUsize,
    stopped: AtomicBool,
}

/// The data of a worker that joins a job, in one cache line.
#[derive(Debug, Default)]
struct Offered {
    slot: RwLock<Slot>,
    /// The first unclaimed task.
    next: AtomicU64,
    /// Whether a task panicked on a worker.
    panicked: AtomicBool,
}

/// The job that workers may join.
#[derive(Default)]
struct Slot {
    job: Option<Arc<dyn Job>>,
    tasks: u64,
    chunk: u64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

impl SpinPool {
    /// A pool of this many threads, including the caller of [`run`](TaskPool::run): at least 1. Threads that the system
    /// refuses are omitted.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let spawn = |worker: usize| {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name(format!("kiln-worker-{worker}"));
            builder.spawn(move || shared.work(worker)).ok()
        };
        let workers = (1..threads).map_while(spawn).collect();
        Self {
            shared,
            workers,
            process: std::process::id(),
        }
    }

    /// A pool of as many threads as the machine runs in parallel.
    pub fn of_machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The number of parked workers.
    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.shared.watched.parked.load(Ordering::SeqCst)
    }
}

impl TaskPool for SpinPool {
    /// The same number in a forked child, which could be distinguished from its parent only by a system call at each
    /// launch.
    fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
        if tasks == 0 {
            return;
        }
        let shared = &*self.shared;
        let is_free = || {
            let (free, busy) = (Ordering::Acquire, Ordering::Relaxed);
            shared
                .busy
                .compare_exchange(false, true, free, busy)
                .is_ok()
        };
        if tasks == 1 || self.workers.is_empty() || !is_free() {
            job.run(0, 0, tasks);
            return;
        }
        let chunk = (tasks / (CHUNKS * (self.workers.len() as u64 + 1))).max(1);
        let slot = Slot {
            job: Some(Arc::clone(job)),
            tasks,
            chunk,
        };
        // A worker that came too late for the previous job is about to leave; in a child it never does.
        if !shared.offer(slot, SPINS) {
            shared.busy.store(false, Ordering::Release);
            job.run(0, 0, tasks);
            return;
        }
        // Sequentially consistent, as is `parked`: either this sees a worker that parks, or that worker sees the job.
        shared.watched.published.fetch_add(1, Ordering::SeqCst);
        if shared.watched.parked.load(Ordering::SeqCst) > 0 {
            shared.wake();
        }
        let closing = Closing(shared);
        shared.claim(&**job, 0, tasks, chunk);
        drop(closing);
    }
}

impl Drop for SpinPool {
    fn drop(&mut self) {
        self.shared.watched.stopped.store(true, Ordering::SeqCst);
        self.shared.watched.published.fetch_add(1, Ordering::SeqCst);
        if std::process::id() != self.process {
            return;
        }
        {
            let _parking = lock(&self.shared.parking);
            self.shared.wake.notify_all();
        }
        let this = thread::current().id();
        for worker in self
            .workers
            .drain(..)
            .filter(|worker| worker.thread().id() != this)
        {
            // Panics of tasks were caught, so the result carries no information.
            let _ended = worker.join();
        }
    }
}

/// Withdraws the job when the caller is done, even when a task panicked on its thread.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        let mut looks = CALLER_SPINS;
        while !shared.offer(Slot::default(), looks) {
            thread::yield_now();
            looks = 1;
        }
        let panicked = shared.offered.panicked.swap(false, Ordering::Relaxed);
        shared.busy.store(false, Ordering::Release);
        assert!(
            !panicked || thread::panicking(),
            "a task of a launch panicked"
        );
    }
}

impl Shared {
    /// The main loop of a worker.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait(seen);
            if self.watched.stopped.load(Ordering::SeqCst) {
                return;
            }
            let slot = self.offered.slot.read();
            let slot = slot.unwrap_or_else(PoisonError::into_inner);
            if let Some(job) = &slot.job {
                let run = || self.claim(&**job, worker, slot.tasks, slot.chunk);
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    self.offered.panicked.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Replaces the slot's content, if in one of this many checks no worker is using it.
    fn offer(&self, offered: Slot, looks: u32) -> bool {
        for _ in 0..looks {
            let mut slot = match self.offered.slot.try_write() {
                Ok(slot) => slot,
                Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    spin_loop();
                    continue;
                }
            };
            self.offered.next.store(0, Ordering::Relaxed);
            *slot = offered;
            return true;
        }
        false
    }

    /// Wakes the parked workers.
    ///
    /// A worker that is about to park holds the lock only briefly; in a child it may be held forever by a thread that does
    /// not exist. A worker that is not woken joins at the next launch.
    fn wake(&self) {
        for _ in 0..SPINS {
            match self.parking.try_lock() {
                Err(TryLockError::WouldBlock) => spin_loop(),
                Ok(_) | Err(TryLockError::Poisoned(_)) => {
                    self.wake.notify_all();
                    return;
                }
            }
        }
    }

    /// Waits until a job is published that was not seen.
    fn wait(&self, seen: u64) -> u64 {
        for _ in 0..SPINS {
            let published = self.watched.published.load(Ordering::Acquire);
            if published != seen {
                return published;
            }
            spin_loop();
        }
        let mut parking = lock(&self.parking);
        self.watched.parked.fetch_add(1, Ordering::SeqCst);
        let published = loop {
            let published = self.watched.published.load(Ordering::SeqCst);
            if published != seen {
                break published;
            }
            parking = self
                .wake
                .wait(parking)
                .unwrap_or_else(PoisonError::into_inner);
        };
        self.watched.parked.fetch_sub(1, Ordering::SeqCst);
        published
    }

    /// Runs chunk after chunk until all are claimed.
    fn claim(&self, job: &dyn Job, worker: usize, tasks: u64, chunk: u64) {
        loop {
            let first = self.offered.next.fetch_add(chunk, Ordering::Relaxed);
            if first >= tasks {
                return;
            }
            job.run(worker, first, first.saturating_add(chunk).min(tasks));
        }
    }
}

/// A lock whose owner may have panicked: the data is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
