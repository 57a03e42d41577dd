//! Starts ranks that are already connected by another group.
//!
//! Invariant: if a rank fails, every rank returns an error, so that none waits in NCCL for a missing rank.

use super::super::{Collective, CollectiveError, Numbers};
use super::calls::{Calls, Result};
use super::id::{BYTES, UniqueId};
use super::ranks::Ranks;

/// Starts the ranks of a group, each with its own calls, if it could load them.
pub(super) fn start_over<C: Calls>(
    collective: &dyn Collective,
    calls: Result<C>,
    part_bytes: usize,
) -> Result<Ranks<C>> {
    let (rank, size) = (collective.rank(), collective.size());
    let calls = agreed(collective, calls)?;
    let id = match rank {
        0 => calls.unique_id().map(|id| *id.as_bytes()),
        _ => Ok([0; BYTES]),
    };
    let mut bytes = agreed(collective, id)?;
    collective.broadcast(&mut bytes, 0)?;
    let id = UniqueId::from_bytes(bytes);
    agreed(collective, Ranks::start(calls, &id, rank, size, part_bytes))
}

/// This rank's result, if no rank has an error.
fn agreed<T>(collective: &dyn Collective, own: Result<T>) -> Result<T> {
    let mut failed = [if own.is_ok() { 0.0 } else { 1.0 }];
    let summed = collective.all_reduce(Numbers::F64(&mut failed));
    let own = own?;
    summed?;
    match failed[0] > 0.0 {
        true => Err(CollectiveError::new(format!(
            "expected every rank to start NCCL, found {} of {} that failed",
            failed[0],
            collective.size()
        ))),
        false => Ok(own),
    }
}
