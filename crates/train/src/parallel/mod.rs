//! Data-parallel training: each rank computes the gradients of its own batch, and all ranks apply the same update.
//!
//! A [`Collective`] is the communication that a trainer needs: the ranks of a [`LocalGroup`] are threads of one
//! process, those of `mpi::Mpi` (feature `mpi`) are processes on any number of machines, and those of `nccl::Nccl`
//! (feature `nccl`) have a GPU each. A trainer that is built [across](crate::TrainerBuilder::build_across) a collective
//! begins with the parameters of rank 0, and its steps compute the same as a step of one process on the concatenated
//! batch, up to rounding.

mod buckets;
mod local;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;

pub(crate) use buckets::Buckets;
pub use local::{Local, LocalGroup};

use std::fmt;

/// Ranks that compute together. Every rank calls the same operations in the same order, with the same number of
/// elements.
pub trait Collective: fmt::Debug + Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Replaces numbers by their sums over all ranks, the same bits on every rank and in every run.
    ///
    /// # Errors
    /// When a rank has ended, or ranks disagree about the operation.
    fn all_reduce(&self, numbers: Numbers<'_>) -> Result<(), CollectiveError>;

    /// Replaces bytes by those of one rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<(), CollectiveError>;
}

/// Numbers that are summed over ranks.
#[derive(Debug)]
#[non_exhaustive]
pub enum Numbers<'a> {
    /// `f32`.
    F32(&'a mut [f32]),
    /// `f64`.
    F64(&'a mut [f64]),
}

/// Why ranks cannot compute together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct CollectiveError {
    problem: String,
}

impl CollectiveError {
    /// An error with this message.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
        }
    }
}
