//! Distributes independent parts of a builtin's work over the threads of the pool.
//!
//! Invariant: whatever a pool does with its job afterwards, the work is called only while [`map_parts`] has not returned.
#![allow(unsafe_code, reason = "the work's lifetime is erased for the pool")]

use kiln_backend::{Job, TaskPool};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The number of elements below which another thread costs more than it saves: about ten microseconds of the fastest
/// builtin.
const LEAST: usize = 1 << 13;

/// Parts per thread, so that threads which are late or slow take fewer.
const PER_THREAD: usize = 4;

/// The number of parts for work on this many elements; at least 1.
pub(super) fn n_parts(pool: &dyn TaskPool, elements: usize) -> usize {
    match pool.threads() {
        0 | 1 => 1,
        threads => (elements / LEAST).clamp(1, threads * PER_THREAD),
    }
}

/// The results of `work` for each part, in order. Parts are processed in any order, on the threads of the pool.
pub(super) fn map_parts<P: Send, R: Send>(
    pool: &dyn TaskPool,
    parts: Vec<P>,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    if parts.len() <= 1 {
        return parts.into_iter().map(work).collect();
    }
    let slots: Vec<Mutex<Slot<P, R>>> = parts.into_iter().map(Slot::given).collect();
    let run = |task: u64| {
        let slot = usize::try_from(task).ok().and_then(|at| slots.get(at));
        if let Some(slot) = slot {
            let part = lock(slot).part.take();
            let result = part.map(&work);
            lock(slot).result = result;
        }
    };
    share_out(pool, slots.len() as u64, &run);
    let result = |slot: Mutex<Slot<P, R>>| {
        let slot = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        slot.result.or_else(|| slot.part.map(&work))
    };
    slots.into_iter().filter_map(result).collect()
}

/// A part that still has to be processed, or its result.
struct Slot<P, R> {
    part: Option<P>,
    result: Option<R>,
}

impl<P, R> Slot<P, R> {
    fn given(part: P) -> Mutex<Self> {
        Mutex::new(Self {
            part: Some(part),
            result: None,
        })
    }
}

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function of a task's number, for as long as its caller waits.
type Work<'a> = dyn Fn(u64) + Sync + 'a;

/// Runs tasks `0..tasks`, each once, and returns when all are done.
fn share_out(pool: &dyn TaskPool, tasks: u64, work: &Work<'_>) {
    // SAFETY: only the lifetime changes, and `Over` takes the reference back before `work` ends: it waits for the lock that
    // every call of it holds.
    let work = unsafe { mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
    let job = Arc::new(Parts(RwLock::new(Some(work))));
    let shared: Arc<dyn Job> = Arc::clone(&job) as _;
    let _over = Over(&job);
    pool.run(&shared, tasks);
}

/// The job of the pool: `None` once its caller has returned.
struct Parts(RwLock<Option<&'static Work<'static>>>);

impl Job for Parts {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        let work = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = *work {
            (first..last).for_each(work);
        }
    }
}

/// Withdraws the work, even when distributing it panics.
struct Over<'a>(&'a Parts);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::CallerOnly;

    /// Runs each task on a separate thread, and keeps the job.
    struct Keeping(Mutex<Option<Arc<dyn Job>>>);

    impl TaskPool for Keeping {
        fn threads(&self) -> usize {
            2
        }

        fn run(&self, job: &Arc<dyn Job>, tasks: u64) {
            std::thread::scope(|scope| {
                for task in 0..tasks {
                    scope.spawn(move || job.run(0, task, task + 1));
                }
            });
            *lock(&self.0) = Some(Arc::clone(job));
        }
    }

    #[test]
    fn results_are_in_the_order_of_parts_on_any_pool() {
        let keeping = Keeping(Mutex::new(None));
        for pool in [&CallerOnly as &dyn TaskPool, &keeping] {
            for n in [0, 1, 2, 7] {
                let squares = map_parts(pool, (0..n).collect(), |part| part * part);
                assert_eq!(squares, (0..n).map(|part| part * part).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_kept_job_runs_nothing_afterwards() {
        let (pool, calls) = (Keeping(Mutex::new(None)), Mutex::new(0));
        map_parts(&pool, vec![(); 3], |()| *lock(&calls) += 1);
        let kept = lock(&pool.0).take().unwrap();
        kept.run(0, 0, 3);
        assert_eq!(*lock(&calls), 3);
    }

    #[test]
    fn few_elements_are_one_part() {
        let pool = Keeping(Mutex::new(None));
        assert_eq!(n_parts(&pool, 0), 1);
        assert_eq!(n_parts(&pool, 2 * LEAST), 2);
        assert_eq!(n_parts(&pool, usize::MAX), 2 * PER_THREAD);
        assert_eq!(n_parts(&CallerOnly, usize::MAX), 1);
    }
}
