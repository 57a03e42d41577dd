//! The compile queue under a model checker: the library's own source file, with every interleaving of its lock
//! operations explored.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod sync {
    //! A replacement for the library's `sync`, with the checker's locks. No wait has a limit.

    use std::sync::PoisonError;
    use std::time::Duration;

    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait_while<'a, T>(
        changed: &Condvar,
        guard: MutexGuard<'a, T>,
        _limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = changed.wait_while(guard, condition);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

#[path = "../src/compile/queue.rs"]
mod queue;

use std::sync::Arc;
use std::time::Duration;

use queue::{JobQueue, Urgency};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

/// How many interleavings of each model are tried.
const ROUNDS: usize = 1000;

const LONG: Duration = Duration::from_secs(1);

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, ROUNDS);
}

/// Threads that take jobs until the queue is stopped; each job counts itself.
fn workers(
    queue: &Arc<JobQueue<u32, u32>>,
    n_workers: usize,
    done: &Arc<AtomicUsize>,
    most_background: &Arc<AtomicUsize>,
) -> Vec<thread::JoinHandle<()>> {
    let running = Arc::new(AtomicUsize::new(0));
    let worker = |_| {
        let (queue, done) = (Arc::clone(queue), Arc::clone(done));
        let (running, most) = (Arc::clone(&running), Arc::clone(most_background));
        thread::spawn(move || {
            while let Some(taken) = queue.take() {
                let (_, is_background) = taken.into_parts();
                if is_background {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                }
                done.fetch_add(1, Ordering::SeqCst);
                queue.done(is_background);
            }
        })
    };
    (0..n_workers).map(worker).collect()
}

#[test]
fn in_every_interleaving_each_job_runs_once_and_background_jobs_are_limited() {
    check(|| {
        let queue = Arc::new(JobQueue::new(1));
        let (done, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads = workers(&queue, 2, &done, &most);
        let other = Arc::clone(&queue);
        let pusher = thread::spawn(move || {
            for worth in 0..2 {
                let pushed = other.push(
                    10 + worth,
                    Urgency::Background {
                        worth: u64::from(worth),
                    },
                    worth,
                );
                pushed.expect("it is not stopped");
            }
        });
        queue
            .push(1, Urgency::Urgent, 1)
            .expect("it is not stopped");
        queue.hurry(&11);
        pusher.join().expect("it does not panic");
        assert!(queue.wait_idle(LONG));
        assert_eq!(done.load(Ordering::SeqCst), 3);
        assert!(most.load(Ordering::SeqCst) <= 1);
        assert!(queue.stop().is_empty());
        for thread in threads {
            thread.join().expect("it does not panic");
        }
    });
}

#[test]
fn in_every_interleaving_shutdown_loses_no_job_and_leaves_no_thread() {
    check(|| {
        let queue = Arc::new(JobQueue::new(1));
        let (done, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads = workers(&queue, 2, &done, &most);
        let other = Arc::clone(&queue);
        let pusher = thread::spawn(move || {
            let jobs = [(1, Urgency::Urgent), (2, Urgency::Background { worth: 5 })];
            let refused =
                jobs.map(|(id, urgency)| usize::from(other.push(id, urgency, id).is_err()));
            refused.iter().sum::<usize>()
        });
        let dropped = queue.stop().len();
        let refused = pusher.join().expect("it does not panic");
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        assert_eq!(done.load(Ordering::SeqCst) + dropped + refused, 2);
        assert!(queue.wait_idle(LONG));
    });
}

#[test]
fn in_every_interleaving_a_hung_job_does_not_block_others() {
    check(|| {
        let queue = Arc::new(JobQueue::new(1));
        let (begun, is_begun) = shuttle::sync::mpsc::channel();
        let (done, is_done) = shuttle::sync::mpsc::channel();
        let worker = |hangs_until: Option<shuttle::sync::mpsc::Receiver<()>>| {
            let (queue, begun, done) = (Arc::clone(&queue), begun.clone(), done.clone());
            move || {
                while let Some(taken) = queue.take() {
                    let (_, is_background) = taken.into_parts();
                    begun.send(()).expect("the receiver is alive");
                    match &hangs_until {
                        Some(other) => other.recv().expect("the other ends"),
                        None => done.send(()).expect("the receiver is alive"),
                    }
                    queue.done(is_background);
                }
            }
        };
        // The first job hangs until the second is done, which the other thread must take.
        queue
            .push(1, Urgency::Urgent, 1)
            .expect("it is not stopped");
        let hangs = thread::spawn(worker(Some(is_done)));
        is_begun.recv().expect("it begins");
        let works = thread::spawn(worker(None));
        let other = Arc::clone(&queue);
        let idle = thread::spawn(move || assert!(other.wait_idle(LONG)));
        queue
            .push(2, Urgency::Urgent, 2)
            .expect("it is not stopped");
        idle.join().expect("it does not panic");
        assert!(queue.stop().is_empty());
        for thread in [hangs, works] {
            thread.join().expect("it does not panic");
        }
    });
}

#[test]
fn in_every_interleaving_a_withdrawn_job_does_not_run() {
    check(|| {
        let queue = Arc::new(JobQueue::new(1));
        let (done, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads = workers(&queue, 1, &done, &most);
        for (id, urgency) in [
            (1, Urgency::Urgent),
            (2, Urgency::Urgent),
            (3, Urgency::Background { worth: 1 }),
        ] {
            assert!(queue.push(id, urgency, id).is_ok());
        }
        let other = Arc::clone(&queue);
        let forgetter = thread::spawn(move || {
            assert!(other.forget(&2, |_| true).is_none(), "it has a waiter");
            let forgotten = [2, 3, 4].map(|id| other.forget(&id, |_| false));
            forgotten.iter().flatten().count()
        });
        assert!(queue.wait_idle(LONG));
        let forgotten = forgetter.join().expect("it does not panic");
        assert_eq!(done.load(Ordering::SeqCst) + forgotten, 3);
        assert_eq!(queue.counts(), (0, 0));
        drop(queue.stop());
        for thread in threads {
            thread.join().expect("it does not panic");
        }
    });
}

#[test]
fn awaited_jobs_come_first_then_those_with_most_benefit() {
    let take = |queue: &JobQueue<u32, &'static str>| {
        let taken = queue.take().expect("there is a job");
        taken.into_parts()
    };
    check(move || {
        let queue = JobQueue::new(1);
        let background = |worth| Urgency::Background { worth };
        for (id, urgency, job) in [
            (1, background(5), "cheap"),
            (2, background(9), "dear"),
            (3, background(9), "as dear, later"),
            (4, Urgency::Urgent, "awaited"),
            (8, background(2).worth_more(1), "dearest in the end"),
        ] {
            assert!(queue.push(id, urgency, job).is_ok());
        }
        queue.hurry(&1);
        queue.hurry(&7);
        queue.add_worth(&8, 7);
        queue.add_worth(&7, 7);
        assert_eq!(take(&queue), ("awaited", false));
        assert_eq!(take(&queue), ("cheap", false));
        assert_eq!(take(&queue), ("dearest in the end", true));
        assert_eq!(queue.counts(), (2, 3));
        queue.done(true);
        assert_eq!(take(&queue), ("dear", true));
        queue.done(true);
        assert_eq!(take(&queue), ("as dear, later", true));
        assert!(queue.push(5, background(1), "never").is_ok());
        assert_eq!(queue.stop(), ["never"]);
        assert!(queue.take().is_none());
        assert_eq!(queue.push(6, Urgency::Urgent, "late"), Err("late"));
    });
}
