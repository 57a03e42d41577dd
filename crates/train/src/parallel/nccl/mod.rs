//! Ranks that have a GPU each, connected by NVIDIA's NCCL.
//!
//! The library is opened when it is first needed, so that it is not needed to build. Numbers and bytes go through the
//! GPU in pieces of a fixed size, on a separate stream. An error ends the communicator, since NCCL guarantees nothing
//! after one.

mod agree;
mod calls;
mod gpu;
mod id;
mod library;
mod memory;
mod ranks;
#[cfg(test)]
mod tests;

pub use id::UniqueId;

use super::{Collective, CollectiveError, Numbers};
use gpu::Gpu;
use library::Library;
use ranks::Ranks;
use std::fmt;
use std::time::Duration;

/// The number of bytes that are on the GPU at a time: a bucket of gradients is one part.
const PART_BYTES: usize = 16 << 20;

/// One of the ranks that NCCL connects: a process or a thread with its own GPU.
///
/// ```no_run
/// use kiln_train::parallel::nccl::{Nccl, UniqueId};
///
/// # fn variable(name: &str) -> String { std::env::var(name).unwrap_or_default() }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A launcher prints `Nccl::unique_id()?` once, and starts each rank with it.
/// let id: UniqueId = variable("TRAIN_ID").parse()?;
/// let (rank, size): (usize, usize) = (variable("RANK").parse()?, variable("WORLD_SIZE").parse()?);
/// let device: u32 = variable("LOCAL_RANK").parse()?;
/// let ranks = Nccl::start(&id, rank, size, device)?;
/// # Ok(())
/// # }
/// ```
///
/// Sums are bitwise equal on all ranks: NCCL computes each once, and copies it. They are also bitwise equal in every
/// run with the same ranks on the same machines, unless switches compute them (NVLink SHARP), which
/// `NCCL_NVLS_ENABLE=0` turns off.
///
/// After an error, every operation fails; to continue training, start the ranks again. Ranks that pass different
/// numbers of elements are not detected: they wait up to the [limit](Self::wait_at_most), or get wrong numbers.
pub struct Nccl {
    ranks: Ranks<Gpu>,
}

impl Nccl {
    /// The id of a new group, which one process makes and all ranks start with. That process must live until all ranks
    /// have started.
    ///
    /// # Errors
    /// If there is no NCCL, or it is too old or fails: each place that was searched is named.
    pub fn unique_id() -> Result<UniqueId, CollectiveError> {
        Library::open()?.unique_id()
    }

    /// Starts a rank on the GPU with this number, and waits until all `size` ranks have started. Two ranks cannot share a GPU.
    ///
    /// # Errors
    /// If there is no NCCL, no driver or no such GPU, one of them is too old, or the ranks cannot be connected.
    pub fn start(
        id: &UniqueId,
        rank: usize,
        size: usize,
        device: u32,
    ) -> Result<Self, CollectiveError> {
        let ranks = Ranks::start(Gpu::open(device)?, id, rank, size, PART_BYTES)?;
        Ok(Self { ranks })
    }

    /// Starts the ranks of another group, such as that of MPI. The other group only transmits the id, and is not used
    /// afterwards.
    ///
    /// # Errors
    /// On every rank, if [`start`](Self::start) fails on one, or the other group fails.
    pub fn start_over(collective: &dyn Collective, device: u32) -> Result<Self, CollectiveError> {
        let ranks = agree::start_over(collective, Gpu::open(device), PART_BYTES)?;
        Ok(Self { ranks })
    }

    /// Sets how long an operation waits for the other ranks before it fails; 30 minutes by default.
    ///
    /// NCCL does not always notice that a rank has ended, so without a limit the others could wait for it forever.
    #[must_use]
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.ranks.wait_at_most(limit);
        self
    }
}

impl Collective for Nccl {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }

    fn all_reduce(&self, numbers: Numbers<'_>) -> Result<(), CollectiveError> {
        self.ranks.all_reduce(numbers)
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<(), CollectiveError> {
        self.ranks.broadcast(bytes, root)
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nccl({} of {})", self.rank(), self.size())
    }
}
