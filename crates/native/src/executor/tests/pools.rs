//! Thread pools, correct and faulty ones: whatever a pool does, code runs only on its own tasks.

use super::*;
use kiln_backend::{Job, Launch, StopSignal, TaskPool};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// This many threads, created for each run, which take a few tasks at a time.
pub(super) struct Threads(pub(super) usize);

impl TaskPool for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
        const FEW: u64 = 7;
        let next = AtomicU64::new(0);
        let work = |worker| {
            loop {
                let first = next.fetch_add(FEW, Ordering::Relaxed);
                if first >= tasks {
                    break;
                }
                job.run(worker, first, (first + FEW).min(tasks));
            }
        };
        std::thread::scope(|scope| {
            for worker in 1..self.0 {
                scope.spawn(move || work(worker));
            }
            work(0);
        });
    }
}

/// Runs invalid tasks on invalid workers, and keeps the job.
#[derive(Default)]
struct Careless(Mutex<Vec<Arc<dyn Job>>>);

impl TaskPool for Careless {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
        self.0.lock().unwrap().push(Arc::clone(job));
        job.run(77, 0, tasks + 1000);
        job.run(usize::MAX, u64::MAX - 1, u64::MAX);
        job.run(0, 5, 2);
    }
}

struct Panicking;

impl TaskPool for Panicking {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, job: &Arc<dyn Job>, _tasks: u64) {
        job.run(1, 0, 1);
        panic!("no more threads");
    }
}

fn launched(execution: &mut dyn kiln_backend::Execution, x: &[f32]) -> Vec<f32> {
    let code = scale();
    let kernel = NativeExecutor::new().load(&code).unwrap();
    let (input, output) = (uploaded(x), alloc(4 * x.len()));
    let launch = Launch {
        buffers: &[whole(&input), whole(&output)],
        numbers: &numbers(
            &code,
            &[4 * x.len(), 4 * x.len()],
            &[],
            &[(x.len() as u64, 100)],
            0,
        ),
    };
    launch_alone(&mut *execution, &kernel, &launch).unwrap();
    elements(&output)
}

#[test]
fn a_pool_that_runs_tasks_late_or_twice_does_no_harm() {
    let pool = Arc::new(Careless::default());
    let mut execution = NativeExecutor::new()
        .with_pool(Arc::clone(&pool) as Arc<dyn TaskPool>)
        .begin();
    let x: Vec<f32> = (0..50).map(|i| i as f32).collect();
    for _ in 0..3 {
        assert_eq!(launched(&mut *execution, &x), scaled(&x));
        // Too late: the launch is over.
        for job in &*pool.0.lock().unwrap() {
            job.run(0, 0, 50);
        }
    }
}

#[test]
fn a_pool_that_panics_leaves_an_execution_that_works() {
    let cpu = NativeExecutor::new();
    let mut execution = cpu.clone().with_pool(Arc::new(Panicking)).begin();
    let panic = catch_unwind(AssertUnwindSafe(|| launched(&mut *execution, &[1.0, 2.0])));
    assert!(panic.is_err());
    assert_eq!(launched(&mut *execution, &[3.0]), [3.4]);
}

/// Signals at the nth check.
struct StopsAt(AtomicU64, u64, AtomicU32);

impl StopSignal for StopsAt {
    fn is_stopped(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) + 1 >= self.1
    }

    fn word(&self) -> &AtomicU32 {
        &self.2
    }
}

#[test]
fn a_stopped_launch_ends_between_two_tasks() {
    let x: Vec<f32> = (0..300).map(|i| (i + 1) as f32).collect();
    for pool in [
        Arc::new(Threads(3)) as Arc<dyn TaskPool>,
        Arc::new(kiln_backend::CallerOnly),
    ] {
        let mut execution = NativeExecutor::new().with_pool(pool).begin();
        for n in [1, 2, 10] {
            execution.stop_when(Some(Arc::new(StopsAt(
                AtomicU64::new(0),
                n,
                AtomicU32::new(0),
            ))));
            let y = launched(&mut *execution, &x);
            let expected = scaled(&x);
            let done = y.iter().zip(&expected).filter(|(a, b)| a == b).count();
            // Chunks of four elements; chunks in progress on other threads finish.
            assert!(done <= 4 * (n as usize + 2), "{done} of {n}");
            // Each thread may have checked once before it had a chunk.
            assert!(done + 4 * 4 >= 4 * n as usize, "{done} of {n}");
        }
        execution.stop_when(None);
        assert_eq!(launched(&mut *execution, &x), scaled(&x));
    }
}
