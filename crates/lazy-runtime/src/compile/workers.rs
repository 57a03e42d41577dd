//! Compile threads: up to a limit, started on demand, with stack space for a compiler's recursion.
//!
//! A forked child has none; there, the thread that submits a job runs it itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kiln_kernel_cache::KeyDigest;

use super::queue::{JobQueue, Urgency};
use crate::clock::Clock;
use crate::sync::lock;

/// Bytes of stack of a compile thread: compilers recurse.
const STACK: usize = 64 << 20;

/// The maximum number of threads, regardless of how many hang.
const MAX_THREADS: usize = 64;

/// How long a runtime that ends waits for stores in progress.
const FAREWELL: Duration = Duration::from_secs(1);

/// A job for a compile thread.
pub(crate) trait Work: Send {
    /// Runs it.
    fn run(self: Box<Self>);

    /// Whether a call waits for it.
    fn is_wanted(&self) -> bool;
}

/// The work of a job, done whether or not a call waits.
impl<F: FnOnce() + Send> Work for F {
    fn run(self: Box<Self>) {
        self();
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

type Job = Box<dyn Work>;

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    process: u32,
}

struct Shared {
    queue: JobQueue<KeyDigest, Job>,
    clock: Arc<dyn Clock>,
    /// The number of threads if none hangs.
    threads: usize,
    /// A job that takes longer does not count towards the limit: another thread is started.
    hung_after: Duration,
    /// The current threads.
    made: AtomicUsize,
    /// The start time of each running job.
    begun: Mutex<Vec<Duration>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Workers {
    /// At most `threads` threads, `background` of them for jobs without waiters.
    pub(crate) fn new(
        threads: usize,
        background: usize,
        hung_after: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let threads = threads.clamp(1, MAX_THREADS);
        Self {
            shared: Arc::new(Shared {
                queue: JobQueue::new(background.clamp(1, threads)),
                clock,
                threads,
                hung_after,
                made: AtomicUsize::new(0),
                begun: Mutex::default(),
            }),
            process: std::process::id(),
        }
    }

    /// Whether this is a forked child of the process that made the threads.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Runs a job in the order of priority; immediately on this thread if there are no threads.
    pub(crate) fn run(&self, id: KeyDigest, urgency: Urgency, job: Job) {
        if self.is_forked() || !self.ensure_thread() {
            return on_a_large_stack(job);
        }
        if let Err(job) = self.shared.queue.push(id, urgency, job) {
            job.run();
        }
    }

    /// A call now waits for a job that was queued for later.
    pub(crate) fn hurry(&self, id: KeyDigest) {
        if !self.is_forked() {
            self.shared.queue.hurry(&id);
        }
    }

    /// A job that was queued for later saves this much more than was thought.
    pub(crate) fn add_worth(&self, id: KeyDigest, more: u64) {
        if !self.is_forked() {
            self.shared.queue.add_worth(&id, more);
        }
    }

    /// Drops a job that has not begun and has no waiter; returns whether there was one.
    pub(crate) fn forget(&self, id: &KeyDigest) -> bool {
        // Dropped only after the queue is unlocked.
        !self.is_forked()
            && self
                .shared
                .queue
                .forget(id, |job| job.is_wanted())
                .is_some()
    }

    /// Waits up to a limit until no job waits or runs; returns whether that is so.
    pub(crate) fn wait_idle(&self, limit: Duration) -> bool {
        self.is_forked() || self.shared.queue.wait_idle(limit)
    }

    /// The number of waiting and of running jobs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        match self.is_forked() {
            true => (0, 0),
            false => self.shared.queue.counts(),
        }
    }

    /// The time after which a compile counts as hung.
    pub(crate) fn hung_after(&self) -> Duration {
        self.shared.hung_after
    }

    /// Starts a thread if jobs wait and all threads hang: for a call that was queued before the hang was detected.
    pub(crate) fn relieve(&self) {
        if !self.is_forked() && self.counts().0 > 0 {
            self.ensure_thread();
        }
    }

    /// Starts a thread if more are allowed; returns whether there is any.
    fn ensure_thread(&self) -> bool {
        let shared = &self.shared;
        let (waiting, running) = shared.queue.counts();
        let made = shared.made.load(Ordering::Relaxed);
        if made >= shared.allowed() || (made > 0 && waiting + running < made) {
            return made > 0;
        }
        let claimed =
            shared
                .made
                .compare_exchange(made, made + 1, Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_err() {
            return true;
        }
        let shared = Arc::clone(&self.shared);
        let builder = thread::Builder::new()
            .name(format!("kiln-compile-{made}"))
            .stack_size(STACK);
        if builder.spawn(move || shared.work()).is_ok() {
            return true;
        }
        self.shared.made.fetch_sub(1, Ordering::Relaxed);
        made > 0
    }
}

impl Shared {
    /// The maximum number of threads: one more for each hung one.
    fn allowed(&self) -> usize {
        let now = self.clock.now();
        let begun = lock(&self.begun);
        let is_hung = |begin: &&Duration| now.saturating_sub(**begin) > self.hung_after;
        let hung = begun.iter().filter(is_hung).count();
        (self.threads + hung).min(MAX_THREADS)
    }

    /// Whether a thread is superfluous after a hung one has finished; it then stops being counted.
    fn is_one_too_many(&self) -> bool {
        let (allowed, relaxed) = (self.allowed(), Ordering::Relaxed);
        let one_less = |made: usize| (made > allowed).then(|| made - 1);
        let changed = self.made.fetch_update(relaxed, relaxed, one_less);
        changed.is_ok()
    }

    fn work(&self) {
        while let Some(taken) = self.queue.take() {
            let (job, is_background) = taken.into_parts();
            let begin = self.clock.now();
            lock(&self.begun).push(begin);
            // A job catches its own panics; this catches the rest, so that the thread survives.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
            if done.is_err() {
                tracing::error!("a compile thread's job panicked");
            }
            {
                let mut begun = lock(&self.begun);
                if let Some(position) = begun.iter().position(|&other| other == begin) {
                    begun.swap_remove(position);
                }
            }
            let is_over = self.is_one_too_many();
            self.queue.done(is_background);
            if is_over {
                return;
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        let dropped = self.shared.queue.stop();
        drop(dropped);
        // Compiled code is being stored; a hung thread is left behind.
        self.shared.queue.wait_idle(FAREWELL);
    }
}

/// Runs a job with stack space for a compiler.
fn on_a_large_stack(job: Job) {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK);
        // Without any threads the job is dropped, and its waiters are notified.
        if let Ok(handle) = builder.spawn_scoped(scope, || job.run()) {
            let _ = handle.join();
        }
    });
}
