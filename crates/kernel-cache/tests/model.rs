//! Single flight under a model checker: the library's own source file, with every interleaving of its lock operations
//! explored.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod sync {
    //! A replacement for the library's `sync`, with the checker's locks; waits may end at any moment.

    use std::sync::{LockResult, PoisonError};
    use std::time::Duration;

    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[derive(Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        /// A zero limit ends at a moment chosen by the checker; any other wait has no limit.
        pub(crate) fn wait_timeout_while<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            limit: Duration,
            mut condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<(MutexGuard<'a, T>, ())> {
            if limit > Duration::ZERO {
                guard = self
                    .0
                    .wait_while(guard, condition)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                let _ = condition(&mut guard);
            }
            Ok((guard, ()))
        }
    }
}

#[path = "../src/flight.rs"]
#[allow(dead_code, reason = "the model needs a part of it")]
mod flight;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flight::{Flights, Joined, Waited};
use shuttle::thread;
use sync::{Arc, Mutex, lock};

/// How many interleavings of each model are tried.
const ROUNDS: usize = 1000;

const LONG: Duration = Duration::from_secs(1);

type Shared = Arc<Flights<u8, usize>>;

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, ROUNDS);
}

/// How the cache uses a flight: check memory, join, check memory again, compile.
fn get(
    flights: &Shared,
    memory: &Mutex<Option<usize>>,
    n_made: &AtomicUsize,
    gives_up: bool,
) -> Option<usize> {
    loop {
        let found = *lock(memory);
        if found.is_some() {
            return found;
        }
        match flights.join(7, Duration::ZERO, LONG) {
            Joined::Lead(lead) => {
                let found = *lock(memory);
                if let Some(found) = found {
                    lead.finish(found);
                    return Some(found);
                }
                if gives_up {
                    return None;
                }
                let value = 100 + n_made.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                *lock(memory) = Some(value);
                lead.finish(value);
                return Some(value);
            }
            Joined::Follow(follow) => match follow.wait(LONG) {
                Waited::Done(value) => return Some(value),
                Waited::Abandoned => {}
                other => panic!("waits end with a result: {other:?}"),
            },
        }
    }
}

fn storm(n_threads: usize, n_give_up: usize) {
    let flights: Shared = Arc::new(Flights::new());
    let memory = Arc::new(Mutex::new(None));
    let n_made = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..n_threads)
        .map(|number| {
            let (flights, memory) = (Arc::clone(&flights), Arc::clone(&memory));
            let n_made = Arc::clone(&n_made);
            thread::spawn(move || get(&flights, &memory, &n_made, number < n_give_up))
        })
        .collect();
    let results: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().expect("it does not panic"))
        .collect();
    assert_eq!(n_made.load(Ordering::SeqCst), 1);
    assert!(
        results[n_give_up..]
            .iter()
            .all(|result| *result == Some(100))
    );
    assert_eq!(flights.len(), 0);
}

#[test]
fn in_every_interleaving_one_thread_compiles_and_all_get_the_result() {
    check(|| storm(4, 0));
}

#[test]
fn in_every_interleaving_a_leader_that_gives_up_is_replaced() {
    check(|| storm(4, 2));
}

#[test]
fn in_every_interleaving_a_delegating_leader_gets_the_result() {
    check(|| {
        let flights: Shared = Arc::new(Flights::new());
        let Joined::Lead(lead) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the first leads");
        };
        let follow = lead.follow();
        let maker = thread::spawn(move || lead.finish(5));
        assert_eq!(follow.wait(LONG), Waited::Done(5));
        maker.join().expect("it does not panic");
        assert_eq!(flights.len(), 0);
    });
}

#[test]
fn in_every_interleaving_a_panicking_leader_wakes_its_waiters() {
    check(|| {
        let flights: Shared = Arc::new(Flights::new());
        let Joined::Lead(lead) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the first leads");
        };
        let other = Arc::clone(&flights);
        let follower = thread::spawn(move || match other.join(7, Duration::ZERO, LONG) {
            Joined::Lead(lead) => lead.finish(1),
            Joined::Follow(follow) => assert_eq!(follow.wait(LONG), Waited::Abandoned),
        });
        // As during unwinding.
        drop(lead);
        follower.join().expect("it does not panic");
        assert_eq!(flights.len(), 0);
    });
}

#[test]
fn in_every_interleaving_cancelling_ends_a_wait_or_is_too_late() {
    check(|| {
        let flights: Shared = Arc::new(Flights::new());
        let Joined::Lead(lead) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the first leads");
        };
        let Joined::Follow(follow) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the second follows");
        };
        assert_eq!(lead.n_followers(), 1);
        let cancel = follow.canceller();
        let canceller = thread::spawn(cancel);
        let finisher = thread::spawn(move || lead.finish(3));
        let waited = follow.wait(LONG);
        assert!(
            matches!(waited, Waited::Done(3) | Waited::Cancelled),
            "{waited:?}"
        );
        drop(follow);
        canceller.join().expect("it does not panic");
        finisher.join().expect("it does not panic");
        assert_eq!(flights.len(), 0);
    });
}

#[test]
fn in_every_interleaving_a_timed_wait_ends_and_the_flight_continues() {
    check(|| {
        let flights: Shared = Arc::new(Flights::new());
        let Joined::Lead(lead) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the first leads");
        };
        let Joined::Follow(follow) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the second follows");
        };
        let finisher = thread::spawn(move || lead.finish(3));
        let waited = follow.wait(Duration::ZERO);
        assert!(
            matches!(waited, Waited::Done(3) | Waited::Timeout),
            "{waited:?}"
        );
        assert_eq!(follow.wait(LONG), Waited::Done(3));
        finisher.join().expect("it does not panic");
    });
}

#[test]
fn a_late_leader_does_not_disturb_the_flight_of_its_replacement() {
    shuttle::check_random(
        || {
            let flights: Shared = Arc::new(Flights::new());
            let Joined::Lead(slow) = flights.join(7, Duration::ZERO, LONG) else {
                panic!("the first leads");
            };
            let Joined::Lead(late) = flights.join(7, LONG, LONG) else {
                panic!("the first is no longer trusted");
            };
            assert!(late.is_takeover);
            slow.finish(1);
            let Joined::Follow(follow) = flights.join(7, LONG, LONG) else {
                panic!("the second leads");
            };
            late.finish(2);
            assert_eq!(follow.wait(LONG), Waited::Done(2));
            assert_eq!(flights.len(), 0);
        },
        1,
    );
}

#[test]
fn in_every_interleaving_an_untrusted_leader_is_replaced_in_parallel() {
    check(|| {
        let flights: Shared = Arc::new(Flights::new());
        let Joined::Lead(slow) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the first leads");
        };
        assert!(!slow.is_takeover);
        // It was queued, and is trusted only from its start.
        slow.begin_at(LONG);
        assert!(matches!(flights.join(7, LONG, LONG), Joined::Follow(_)));
        slow.begin_at(Duration::ZERO);
        let Joined::Follow(patient) = flights.join(7, Duration::ZERO, LONG) else {
            panic!("the second follows");
        };
        let slow = thread::spawn(move || slow.finish(1));
        let other = Arc::clone(&flights);
        let late = thread::spawn(move || match other.join(7, LONG, LONG) {
            Joined::Lead(lead) => lead.finish(2),
            Joined::Follow(follow) => assert_eq!(follow.wait(LONG), Waited::Done(1)),
        });
        assert_eq!(patient.wait(LONG), Waited::Done(1));
        slow.join().expect("it does not panic");
        late.join().expect("it does not panic");
        assert_eq!(flights.len(), 0);
    });
}
