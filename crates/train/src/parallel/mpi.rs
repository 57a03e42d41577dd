//! Ranks that are processes, started by `mpirun`.

use super::{Collective, CollectiveError, Numbers};
use ::mpi::Threading;
use ::mpi::collective::SystemOperation;
use ::mpi::environment::Universe;
use ::mpi::traits::{Communicator, CommunicatorCollectives, Root};
use std::fmt;

/// The maximum number of elements of one operation: counts are 32-bit integers in most implementations.
const MOST_ELEMENTS: usize = 1 << 28;

/// The ranks of `MPI_COMM_WORLD`. A process can have one instance; MPI is finalised when it is dropped.
pub struct Mpi {
    universe: Universe,
}

impl Mpi {
    /// Starts MPI.
    ///
    /// # Errors
    /// If MPI was already started in this process, or allows only one thread of a process to call it.
    pub fn start() -> Result<Self, CollectiveError> {
        let started = ::mpi::initialize_with_threading(Threading::Serialized);
        let Some((universe, threading)) = started else {
            let problem = "expected MPI to be started once in a process, found it running";
            return Err(CollectiveError::new(problem));
        };
        if threading < Threading::Serialized {
            let problem = "expected an MPI that any thread may call, found one for the main thread";
            return Err(CollectiveError::new(problem));
        }
        Ok(Self { universe })
    }
}

impl Collective for Mpi {
    fn rank(&self) -> usize {
        usize::try_from(self.universe.world().rank()).unwrap_or(0)
    }

    fn size(&self) -> usize {
        usize::try_from(self.universe.world().size()).unwrap_or(1)
    }

    fn all_reduce(&self, numbers: Numbers<'_>) -> Result<(), CollectiveError> {
        let world = self.universe.world();
        let sum = SystemOperation::sum();
        match numbers {
            Numbers::F32(numbers) => {
                for part in numbers.chunks_mut(MOST_ELEMENTS) {
                    world.all_reduce_into(&part.to_vec(), part, sum);
                }
            }
            Numbers::F64(numbers) => {
                for part in numbers.chunks_mut(MOST_ELEMENTS) {
                    world.all_reduce_into(&part.to_vec(), part, sum);
                }
            }
        }
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<(), CollectiveError> {
        let world = self.universe.world();
        let rank = i32::try_from(root).ok().filter(|&rank| rank < world.size());
        let Some(rank) = rank else {
            let size = world.size();
            return Err(CollectiveError::new(format!(
                "expected a rank below {size}, found {root}"
            )));
        };
        for part in bytes.chunks_mut(MOST_ELEMENTS) {
            world.process_at_rank(rank).broadcast_into(part);
        }
        Ok(())
    }
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi({} of {})", self.rank(), self.size())
    }
}
