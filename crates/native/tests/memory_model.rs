//! The contents of a memory pool under a model checker: the library's own source file, with every interleaving of its
//! lock and atomic operations explored.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod sync {
    //! A replacement for the library's `sync`, with the checker's primitives.

    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    /// A mutex, since no model forks.
    #[derive(Debug)]
    pub(crate) struct ForkLock<T>(shuttle::sync::Mutex<T>);

    impl<T> ForkLock<T> {
        pub(crate) fn new(fresh: impl Fn() -> T) -> Self {
            Self(shuttle::sync::Mutex::new(fresh()))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics")
        }
    }
}

#[path = "../src/executor/kept.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod kept;

use std::sync::Arc;

use kept::{Kept, NoPiece, Piece, WORTH_KEEPING};
use kiln_backend::MemoryLimits;
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::{Config, Runner, thread};

/// How many interleavings of each model are tried.
const ROUNDS: usize = 2000;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    // The checker treats every atomic as sequentially consistent, and would warn about that each time.
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new(ROUNDS), config).run(model);
}

/// A block of this many of the smallest units that are kept; counted while it exists.
struct Block {
    units: usize,
    there: Arc<AtomicUsize>,
}

impl Block {
    fn make(bytes: usize, there: &Arc<AtomicUsize>) -> Self {
        let units = bytes / WORTH_KEEPING;
        there.fetch_add(units, Ordering::SeqCst);
        let there = Arc::clone(there);
        Self { units, there }
    }
}

impl Piece for Block {
    fn bytes(&self) -> usize {
        self.units * WORTH_KEEPING
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.there.fetch_sub(self.units, Ordering::SeqCst);
    }
}

/// Threads that take and return memory, each with its sizes in order, from a pool with this many units.
fn rent(limit: usize, turns: [&'static [usize]; 3], trims: bool) {
    check(move || {
        let limits = MemoryLimits::new().with_total_bytes(limit * WORTH_KEEPING);
        let kept = Arc::new(Kept::new(limits));
        let there = Arc::new(AtomicUsize::new(0));
        let threads = turns.map(|sizes| {
            let (kept, there) = (Arc::clone(&kept), Arc::clone(&there));
            thread::spawn(move || {
                for &size in sizes {
                    let bytes = size * WORTH_KEEPING;
                    let make = |bytes: usize| Ok::<_, ()>(Block::make(bytes, &there));
                    match kept.take(bytes, make) {
                        Ok(block) => {
                            assert!((size..=2 * size).contains(&block.units));
                            assert!(kept.stats().rented_bytes <= limit * WORTH_KEEPING);
                            kept.put(block);
                        }
                        Err(NoPiece::Limit { given, .. }) => {
                            assert!(given > limit * WORTH_KEEPING, "it is refused for nothing");
                        }
                        Err(NoPiece::Unmade(())) => panic!("all can be made"),
                    }
                }
                if trims {
                    kept.trim(WORTH_KEEPING);
                }
            })
        });
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        let stats = kept.stats();
        assert_eq!(stats.rented_bytes, 0);
        assert!(stats.peak_bytes <= limit * WORTH_KEEPING, "{stats:?}");
        assert_eq!(stats.kept_bytes, kept.lengths().iter().sum::<usize>());
        assert_eq!(
            stats.kept_bytes,
            there.load(Ordering::SeqCst) * WORTH_KEEPING
        );
        assert!(stats.kept_bytes <= limit * WORTH_KEEPING, "{stats:?}");
        let turns: usize = turns.iter().map(|sizes| sizes.len()).sum();
        assert_eq!(stats.rents, turns as u64);
        drop(kept);
        assert_eq!(there.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn in_every_interleaving_rents_stay_within_the_limit_and_all_bytes_are_accounted_for() {
    rent(5, [&[3, 2], &[2, 4], &[1, 3]], false);
}

#[test]
fn in_every_interleaving_blocks_are_reused_trimmed_and_never_lost() {
    rent(100, [&[2, 2, 3], &[3, 2], &[2, 4]], true);
}

#[test]
fn in_every_interleaving_rented_and_kept_bytes_end_within_the_limit() {
    check(|| {
        let limits = MemoryLimits::new().with_total_bytes(5 * WORTH_KEEPING);
        let kept = Arc::new(Kept::new(limits));
        let there = Arc::new(AtomicUsize::new(0));
        let make =
            |there: Arc<AtomicUsize>| move |bytes: usize| Ok::<_, ()>(Block::make(bytes, &there));
        let first = kept
            .take(2 * WORTH_KEEPING, make(Arc::clone(&there)))
            .unwrap();
        let giver = {
            let kept = Arc::clone(&kept);
            thread::spawn(move || kept.put(first))
        };
        let taker = {
            let (kept, there) = (Arc::clone(&kept), Arc::clone(&there));
            thread::spawn(move || kept.take(5 * WORTH_KEEPING, make(there)).ok())
        };
        giver.join().expect("it does not panic");
        let second = taker.join().expect("it does not panic");
        let stats = kept.stats();
        assert!(
            stats.rented_bytes + stats.kept_bytes <= 5 * WORTH_KEEPING,
            "{stats:?}"
        );
        assert!(there.load(Ordering::SeqCst) <= 5);
        if let Some(second) = second {
            kept.put(second);
        }
    });
}
