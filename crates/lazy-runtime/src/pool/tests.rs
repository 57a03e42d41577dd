//! The pool under load: every task runs once, from any number of calling threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use kiln_backend::{CallerOnly, Job, TaskPool};

use super::SpinPool;

/// Counts how often each task ran, and rejects a worker that runs two tasks at once.
struct Counting {
    counts: Vec<AtomicU32>,
    inside: Vec<AtomicUsize>,
}

impl Counting {
    fn new(tasks: usize, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: (0..tasks).map(|_| AtomicU32::new(0)).collect(),
            inside: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
        })
    }

    fn expect(&self, times: u32) {
        for (task, count) in self.counts.iter().enumerate() {
            assert_eq!(count.load(Ordering::SeqCst), times, "task {task}");
        }
    }
}

impl Job for Counting {
    fn run(&self, worker: usize, first: u64, last: u64) {
        assert_eq!(
            self.inside[worker].fetch_add(1, Ordering::SeqCst),
            0,
            "worker {worker} twice"
        );
        for task in first..last {
            self.counts[task as usize].fetch_add(1, Ordering::SeqCst);
        }
        self.inside[worker].fetch_sub(1, Ordering::SeqCst);
    }
}

fn dynamic<T: Job + 'static>(job: &Arc<T>) -> Arc<dyn Job> {
    Arc::clone(job) as Arc<dyn Job>
}

#[test]
fn every_task_runs_once_for_any_number_of_tasks_and_threads() {
    for threads in [1, 2, 3, 5] {
        let pool = SpinPool::new(threads);
        assert_eq!(pool.threads(), threads);
        for tasks in [0, 1, 2, 3, 7, 64, 1000] {
            let job = Counting::new(tasks, threads);
            pool.run(&dynamic(&job), tasks as u64);
            job.expect(1);
        }
    }
}

#[test]
fn ten_thousand_launches_of_one_job() {
    let pool = SpinPool::new(3);
    let job = Counting::new(17, 3);
    let launched = dynamic(&job);
    for _ in 0..10_000 {
        pool.run(&launched, 17);
    }
    job.expect(10_000);
}

#[test]
fn launches_after_the_workers_parked() {
    let pool = SpinPool::new(2);
    let job = Counting::new(8, 2);
    for _ in 0..5 {
        // Long enough for a worker to have parked, without depending on the clock.
        while pool_parked(&pool) == 0 {
            thread::yield_now();
        }
        pool.run(&dynamic(&job), 8);
    }
    job.expect(5);
}

fn pool_parked(pool: &SpinPool) -> usize {
    pool.parked()
}

#[test]
fn callers_on_many_threads_all_make_progress() {
    let pool = Arc::new(SpinPool::new(3));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let job = Counting::new(33, 3);
                let launched = dynamic(&job);
                for _ in 0..500 {
                    pool.run(&launched, 33);
                }
                job.expect(500);
            });
        }
    });
}

/// Launches another job from within each of its tasks.
struct Nesting {
    pool: Arc<SpinPool>,
    total: Arc<AtomicU64>,
}

struct Adding(Arc<AtomicU64>);

impl Job for Adding {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        self.0.fetch_add(last - first, Ordering::SeqCst);
    }
}

impl Job for Nesting {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        for _ in first..last {
            let inner: Arc<dyn Job> = Arc::new(Adding(Arc::clone(&self.total)));
            self.pool.run(&inner, 10);
        }
    }
}

#[test]
fn a_task_may_launch() {
    let pool = Arc::new(SpinPool::new(2));
    let total = Arc::new(AtomicU64::new(0));
    let job = Arc::new(Nesting {
        pool: Arc::clone(&pool),
        total: Arc::clone(&total),
    });
    pool.run(&dynamic(&job), 50);
    assert_eq!(total.load(Ordering::SeqCst), 500);
}

struct Panicking;

impl Job for Panicking {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        assert!(!(first..last).contains(&5), "task 5");
    }
}

#[test]
fn a_task_that_panics_panics_the_caller_and_leaves_the_pool_whole() {
    let pool = SpinPool::new(2);
    for _ in 0..20 {
        let job: Arc<dyn Job> = Arc::new(Panicking);
        let run = std::panic::AssertUnwindSafe(|| pool.run(&job, 64));
        assert!(std::panic::catch_unwind(run).is_err());
        let job = Counting::new(64, 2);
        pool.run(&dynamic(&job), 64);
        job.expect(1);
    }
}

#[test]
fn a_job_that_owns_its_pool_is_dropped() {
    let pool = Arc::new(SpinPool::new(2));
    let total = Arc::new(AtomicU64::new(0));
    let job: Arc<dyn Job> = Arc::new(Nesting {
        pool: Arc::clone(&pool),
        total,
    });
    pool.run(&job, 4);
    drop(pool);
    drop(job);
}

#[test]
fn pools_come_and_go() {
    for _ in 0..50 {
        let pool = SpinPool::new(4);
        let job = Counting::new(16, 4);
        pool.run(&dynamic(&job), 16);
        job.expect(1);
    }
}

#[test]
fn the_machine_has_at_least_the_caller() {
    assert!(SpinPool::of_machine().threads() >= 1);
    let job = Counting::new(5, 1);
    CallerOnly.run(&dynamic(&job), 5);
    job.expect(1);
}

/// A measurement to look at; it asserts only that launches end.
#[test]
#[ignore = "prints a time"]
fn launch_latency() {
    let pool = SpinPool::new(2);
    let job = dynamic(&Arc::new(Adding(Arc::new(AtomicU64::new(0)))));
    let launches = 100_000;
    let begin = Instant::now();
    for _ in 0..launches {
        pool.run(&job, 2);
    }
    println!(
        "{:.0} ns per launch",
        begin.elapsed().as_nanos() as f64 / f64::from(launches)
    );
}
