//! Ranks that are threads of one process.
//!
//! Invariants: contributions are added in the order of ranks, whichever arrives first; a rank that is dropped ends the
//! group with an error, so that no other rank waits forever.

use super::{Collective, CollectiveError, Numbers};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Makes ranks that are threads of one process.
///
/// ```
/// use kiln_train::parallel::{Collective, LocalGroup, Numbers};
///
/// let sums = std::thread::scope(|threads| {
///     let ranks = LocalGroup::ranks(3).into_iter().map(|rank| {
///         threads.spawn(move || {
///             let mut number = [rank.rank() as f32];
///             rank.all_reduce(Numbers::F32(&mut number)).map(|()| number[0])
///         })
///     });
///     ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join()).collect::<Vec<_>>()
/// });
/// assert!(sums.into_iter().all(|sum| sum.is_ok_and(|sum| sum == Ok(3.0))));
/// ```
#[derive(Debug)]
pub struct LocalGroup;

impl LocalGroup {
    /// All ranks of a new group, one for each thread.
    pub fn ranks(size: usize) -> Vec<Local> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                given: vec![None; size],
                round: 0,
                result: Ok(Payload::Bytes(Vec::new())),
                has_left: false,
            }),
            changed: Condvar::new(),
        });
        let local = |rank| Local {
            rank,
            size,
            shared: Arc::clone(&shared),
        };
        (0..size).map(local).collect()
    }
}

/// A rank of a [`LocalGroup`].
pub struct Local {
    rank: usize,
    size: usize,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The contributions of the ranks to the current operation.
    given: Vec<Option<(Operation, Payload)>>,
    /// Counts finished operations.
    round: u64,
    /// The result of the last one.
    result: Result<Payload, CollectiveError>,
    has_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Sum,
    Broadcast { root: usize },
}

#[derive(Clone, Debug)]
enum Payload {
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(Vec<u8>),
}

impl Local {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A rank that panicked is dropped, which ends the group.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Contributes to an operation, and waits until all ranks have done so.
    fn exchange(&self, operation: Operation, payload: Payload) -> Result<Payload, CollectiveError> {
        let mut state = self.lock();
        if state.has_left {
            return Err(gone());
        }
        let round = state.round;
        state.given[self.rank] = Some((operation, payload));
        if state.given.iter().all(Option::is_some) {
            let given: Vec<_> = state.given.iter_mut().filter_map(Option::take).collect();
            state.result = combined(given);
            state.round += 1;
            self.shared.changed.notify_all();
            return state.result.clone();
        }
        while state.round == round && !state.has_left {
            let waited = self.shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match state.round == round {
            true => Err(gone()),
            false => state.result.clone(),
        }
    }
}

/// The result of an operation, for every rank.
fn combined(given: Vec<(Operation, Payload)>) -> Result<Payload, CollectiveError> {
    let mut given = given.into_iter();
    let Some((operation, first)) = given.next() else {
        return Err(CollectiveError::new(
            "expected at least one rank, found none",
        ));
    };
    let mut result = first;
    for (rank, (other, payload)) in given.enumerate() {
        let is_same = match (&mut result, &payload) {
            (Payload::F32(sums), Payload::F32(more)) => add(sums, more),
            (Payload::F64(sums), Payload::F64(more)) => add(sums, more),
            (Payload::Bytes(bytes), Payload::Bytes(more)) => bytes.len() == more.len(),
            _ => false,
        };
        if other != operation || !is_same {
            return Err(CollectiveError::new(
                "expected the same operation on every rank, found different ones",
            ));
        }
        if operation == (Operation::Broadcast { root: rank + 1 }) {
            result = payload;
        }
    }
    Ok(result)
}

/// Adds numbers element by element; false if the lengths differ.
fn add<T: Copy + std::ops::AddAssign>(sums: &mut [T], more: &[T]) -> bool {
    for (sum, &more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
    sums.len() == more.len()
}

fn gone() -> CollectiveError {
    CollectiveError::new("expected every rank to go on, found one that ended")
}

impl Collective for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&self, numbers: Numbers<'_>) -> Result<(), CollectiveError> {
        let payload = match &numbers {
            Numbers::F32(numbers) => Payload::F32(numbers.to_vec()),
            Numbers::F64(numbers) => Payload::F64(numbers.to_vec()),
        };
        match (numbers, self.exchange(Operation::Sum, payload)?) {
            (Numbers::F32(numbers), Payload::F32(sums)) => numbers.copy_from_slice(&sums),
            (Numbers::F64(numbers), Payload::F64(sums)) => numbers.copy_from_slice(&sums),
            _ => unreachable!("ranks that gave something else failed"),
        }
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<(), CollectiveError> {
        let payload = Payload::Bytes(bytes.to_vec());
        match self.exchange(Operation::Broadcast { root }, payload)? {
            Payload::Bytes(found) => bytes.copy_from_slice(&found),
            _ => unreachable!("ranks that gave something else failed"),
        }
        Ok(())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.lock().has_left = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({} of {})", self.rank, self.size)
    }
}
