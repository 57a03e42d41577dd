//! The thread pool under a model checker: the library's own source file, with every interleaving of its lock, atomic
//! and thread operations explored.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod sync {
    //! A replacement for the library's `pool::sync`, with the checker's primitives.

    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock};
    pub(crate) use shuttle::thread;

    /// Enough rounds for a worker to come too late, and to come in time.
    pub(crate) const fn spins(_rounds: u32) -> u32 {
        2
    }
}

#[path = "../src/pool/spin.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
mod spin;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kiln_backend::{Job, TaskPool};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::{Config, Runner, thread};
use spin::SpinPool;

/// How many interleavings of each model are tried.
const ROUNDS: usize = 1000;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    // The checker treats every atomic as sequentially consistent, and would warn about that each time.
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new(ROUNDS), config).run(model);
}

/// Counts how often each task ran, and detects tasks that run at the wrong time.
struct Counting {
    times: Vec<AtomicUsize>,
    is_running: AtomicBool,
    panics: bool,
}

impl Counting {
    fn new(tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            times: (0..tasks).map(|_| AtomicUsize::new(0)).collect(),
            is_running: AtomicBool::new(false),
            panics: false,
        })
    }

    /// Runs the tasks on a pool: when that returns, each has run as often as requested, and nothing runs afterwards.
    fn run_on(self: &Arc<Self>, pool: &SpinPool, times: usize) {
        let job: Arc<dyn Job> = Arc::clone(self) as Arc<dyn Job>;
        self.is_running.store(true, Ordering::SeqCst);
        pool.run(&job, self.times.len() as u64);
        self.is_running.store(false, Ordering::SeqCst);
        let ran: Vec<usize> = self
            .times
            .iter()
            .map(|n| n.load(Ordering::SeqCst))
            .collect();
        assert!(ran.iter().all(|&n| n == times), "{ran:?}");
    }
}

impl Job for Counting {
    fn run(&self, worker: usize, first: u64, last: u64) {
        assert!(self.is_running.load(Ordering::SeqCst), "the caller went on");
        for task in first..last {
            self.times[task as usize].fetch_add(1, Ordering::SeqCst);
        }
        thread::yield_now();
        assert!(self.is_running.load(Ordering::SeqCst), "the caller went on");
        assert!(!self.panics || worker == 0, "a task panics");
    }
}

#[test]
fn in_every_interleaving_each_task_runs_once_and_none_runs_later() {
    check(|| {
        let pool = SpinPool::new(3);
        let job = Counting::new(4);
        for times in 1..=2 {
            job.run_on(&pool, times);
        }
        // Joins workers in any state: searching, parking, parked.
        drop(pool);
        assert_eq!(Arc::strong_count(&job), 1);
    });
}

#[test]
fn in_every_interleaving_concurrent_callers_all_get_their_tasks_done() {
    check(|| {
        let pool = Arc::new(SpinPool::new(2));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || Counting::new(3).run_on(&pool, 1))
            })
            .collect();
        for caller in callers {
            caller.join().expect("it does not panic");
        }
    });
}

#[test]
fn in_every_interleaving_a_task_that_panics_leaves_the_pool_whole() {
    check(|| {
        let pool = SpinPool::new(2);
        let panics = Arc::new(Counting {
            times: (0..3).map(|_| AtomicUsize::new(0)).collect(),
            is_running: AtomicBool::new(true),
            panics: true,
        });
        let job: Arc<dyn Job> = Arc::clone(&panics) as Arc<dyn Job>;
        // On the worker, if it got a task.
        let _caught = catch_unwind(AssertUnwindSafe(|| pool.run(&job, 3)));
        panics.is_running.store(false, Ordering::SeqCst);
        Counting::new(3).run_on(&pool, 1);
    });
}
